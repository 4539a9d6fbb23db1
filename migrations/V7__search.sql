-- Full-text search. Everything here is derived from `messages`, filled when a search runs, and made anew by
-- `turnkeep reindex`, which runs this file up to the line that says so.

-- The rowid is messages.id. No text is kept: only where which word stands. Text is taken apart before it comes here
-- (transcript/search/words.rs), so that words stand between spaces. Words that begin with a broken bar are in no text:
-- they name the session, the project, whose words it holds, the tools, and the paths that tool calls name. There is one
-- column for all of it: a second one would cost two bytes for each word in it.
CREATE VIRTUAL TABLE search USING fts5 (text, content = '', contentless_delete = 1, tokenize = 'ascii');
-- Words wait in memory for one segment a step, instead of being written in several and merged at once.
INSERT INTO search (search, rank) VALUES ('hashsize', 16777216);

CREATE TABLE search_state (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    -- The version of the rules by which text was taken apart.
    rules        INTEGER NOT NULL,
    -- Messages up to this id are indexed.
    done         INTEGER NOT NULL,
    -- Whether something was found wrong with it, so that it is to be made anew.
    is_broken    INTEGER NOT NULL DEFAULT 0 CHECK (is_broken IN (0, 1))
) STRICT;

-- When the messages with ids from span * 1024 on were said. A file that was imported late holds old messages.
CREATE TABLE search_spans (
    span         INTEGER PRIMARY KEY,
    oldest_ms    INTEGER NOT NULL,
    newest_ms    INTEGER NOT NULL
) STRICT;
-- End of what `turnkeep reindex` runs.
