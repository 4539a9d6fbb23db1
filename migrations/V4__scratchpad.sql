-- The session's key/value notes. Rows form chains: a session, and every message of a main transcript, names the row
-- that was the newest then, so that forks and branches each see their own, and a value as of a message is a walk.

CREATE TABLE scratchpad (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    session      INTEGER NOT NULL REFERENCES sessions (id),
    -- The row before it in its chain; in a fork, at first one of the origin's.
    previous     INTEGER,
    key          TEXT    NOT NULL CHECK (key <> ''),
    -- JSON; NULL says that the key was deleted.
    value        TEXT,
    -- The head when it was set.
    message      INTEGER,
    set_ms       INTEGER NOT NULL
) STRICT;

CREATE INDEX scratchpad_session ON scratchpad (session, id);

ALTER TABLE sessions ADD COLUMN scratch INTEGER;
ALTER TABLE messages ADD COLUMN scratch INTEGER;

-- What each session's scratchpad holds now.
CREATE VIEW scratchpad_view AS
WITH RECURSIVE note (session, id, previous, key, value, set_ms, depth) AS (
    SELECT s.id, n.id, n.previous, n.key, n.value, n.set_ms, 0
    FROM sessions s JOIN scratchpad n ON n.id = s.scratch WHERE s.deleted_ms IS NULL
    UNION ALL
    SELECT note.session, n.id, n.previous, n.key, n.value, n.set_ms, note.depth + 1
    FROM note JOIN scratchpad n ON n.id = note.previous
)
SELECT s.project_key, s.session_id, note.key, note.value, note.set_ms
FROM note JOIN sessions s ON s.id = note.session
WHERE note.value IS NOT NULL
  AND note.depth = (SELECT min(other.depth) FROM note other WHERE other.session = note.session AND other.key = note.key);
