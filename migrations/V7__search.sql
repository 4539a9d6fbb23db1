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

-- Tokens of each provider response, counted once however many lines, copies and forks hold it: those of its last line in
-- the session it was said in. Copies that a client made are told by the origin inferred for them, or by the response's
-- id and time.
CREATE VIEW usage_view AS
WITH RECURSIVE family (session, root, depth) AS (
    SELECT id, id, 0 FROM sessions WHERE fork_kind IS NOT 'inferred'
    UNION ALL
    SELECT s.id, f.root, f.depth + 1
    FROM family f JOIN sessions s ON s.forked_from = f.session AND s.fork_kind = 'inferred'
),
line AS (
    SELECT s.project_key, s.session_id, m.session, m.subpath, m.seq, m.turn, m.model, m.api_message_id,
           coalesce(m.api_message_id, 'row ' || m.id) AS response, f.root, f.depth,
           coalesce(m.timestamp_ms, m.stored_ms) AS said_ms,
           m.input_tokens, m.output_tokens, m.cache_read_tokens, m.cache_write_tokens
    FROM messages m
    JOIN sessions s ON s.id = m.session
    JOIN family f ON f.session = m.session
    WHERE m.kind = 'assistant' AND m.model IS NOT '<synthetic>' AND s.deleted_ms IS NULL
      AND coalesce(m.input_tokens, m.output_tokens, m.cache_read_tokens, m.cache_write_tokens) IS NOT NULL
),
of_family AS (
    SELECT *, min(said_ms) OVER (PARTITION BY root, response, session, subpath) AS begun_ms,
           row_number() OVER (PARTITION BY root, response ORDER BY depth, session, subpath, seq DESC) AS place
    FROM line
),
counted AS (
    SELECT *, row_number() OVER (PARTITION BY response, model, begun_ms ORDER BY root, depth, session) AS copy
    FROM of_family WHERE place = 1
)
SELECT c.project_key, c.session_id, c.subpath, t.uuid AS turn_uuid, c.api_message_id, c.model,
       c.begun_ms AS said_ms, date(c.begun_ms / 1000, 'unixepoch') AS day,
       coalesce(c.input_tokens, 0) AS input_tokens, coalesce(c.output_tokens, 0) AS output_tokens,
       coalesce(c.cache_read_tokens, 0) AS cache_read_tokens, coalesce(c.cache_write_tokens, 0) AS cache_write_tokens
FROM counted c
LEFT JOIN messages t ON t.id = c.turn
WHERE c.copy = 1;

-- The same by day (UTC) and model.
CREATE VIEW usage_by_day AS
SELECT day, model, count(*) AS responses, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
       sum(cache_read_tokens) AS cache_read_tokens, sum(cache_write_tokens) AS cache_write_tokens
FROM usage_view GROUP BY day, model;
