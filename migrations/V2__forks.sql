-- Forks that copy nothing, branches, and resuming at any point.

ALTER TABLE sessions ADD COLUMN forked_from INTEGER REFERENCES sessions (id);
-- The message (messages.id) that the fork ends its origin's history with.
ALTER TABLE sessions ADD COLUMN forked_at INTEGER;
-- 'own': made here. 'inferred': made by a client, and recognised when it was imported.
ALTER TABLE sessions ADD COLUMN fork_kind TEXT CHECK (fork_kind IN ('own', 'inferred'));
-- The beginning of the uuids under which inherited messages are shown.
ALTER TABLE sessions ADD COLUMN fork_prefix TEXT;
-- When something was last said in the main line.
ALTER TABLE sessions ADD COLUMN conversed_ms INTEGER;

UPDATE sessions SET conversed_ms = last_modified_ms WHERE messages > 0;

CREATE UNIQUE INDEX sessions_fork_prefix ON sessions (fork_prefix) WHERE fork_prefix IS NOT NULL;
CREATE INDEX sessions_forks ON sessions (forked_from) WHERE forked_from IS NOT NULL;
CREATE INDEX sessions_conversed ON sessions (project_key, conversed_ms, id)
    WHERE deleted_ms IS NULL AND conversed_ms IS NOT NULL;

-- One row a fork: its main transcript begins with that of `base` up to `last_seq`.
CREATE TABLE lineage (
    session      INTEGER PRIMARY KEY REFERENCES sessions (id),
    base         INTEGER NOT NULL REFERENCES sessions (id),
    last_seq     INTEGER NOT NULL,
    last_line    INTEGER NOT NULL
) STRICT;

CREATE INDEX lineage_base ON lineage (base, last_seq);

-- The listing of a main transcript as it was before the row `seq`: at the beginning of each turn, and of each fork.
CREATE TABLE listing_marks (
    session      INTEGER NOT NULL REFERENCES sessions (id),
    seq          INTEGER NOT NULL,
    listing      TEXT    NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

-- Turns on branches that our own move of the head left behind: what still arrives of them does not bring them back.
CREATE TABLE left_turns (
    session      INTEGER NOT NULL REFERENCES sessions (id),
    turn         INTEGER NOT NULL,
    PRIMARY KEY (session, turn)
) STRICT, WITHOUT ROWID;

-- Who alone may write to a session, and until when. `token` rises with each holder.
CREATE TABLE leases (
    session      INTEGER PRIMARY KEY REFERENCES sessions (id),
    holder       TEXT    NOT NULL,
    token        INTEGER NOT NULL,
    expires_ms   INTEGER NOT NULL
) STRICT;

-- Whose rows a session's main transcript is made of: rows of `owner` up to `last_seq`.
CREATE VIEW lineage_view AS
WITH RECURSIVE part (session, owner, last_seq, depth) AS (
    SELECT id, id, 9223372036854775807, 0 FROM sessions WHERE deleted_ms IS NULL
    UNION ALL
    SELECT part.session, l.base, min(l.last_seq, part.last_seq), part.depth + 1
    FROM part JOIN lineage l ON l.session = part.owner
)
SELECT session, owner, last_seq, depth FROM part;

-- The messages of a session's main transcript, inherited ones included, under the uuids they are shown with.
CREATE VIEW message_view AS
SELECT s.project_key, s.session_id, m.seq, m.line, m.kind, m.subtype, m.role, m.is_meta, m.model, m.timestamp_ms,
       CASE WHEN m.uuid IS NULL THEN NULL
            WHEN p.depth = 0 THEN m.uuid
            ELSE printf('%s-%04x-%012x', s.fork_prefix, 32768 | (m.id >> 48), m.id & 281474976710655)
       END AS uuid,
       p.depth > 0 AS is_inherited, m.id AS message, m.entry
FROM lineage_view p
JOIN sessions s ON s.id = p.session
JOIN messages m ON m.session = p.owner AND m.subpath = '' AND m.seq <= p.last_seq
WHERE (p.depth = 0 OR m.entry IS NOT NULL);
