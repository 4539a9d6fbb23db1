-- The session that a client's fork names as the one it was copied from, whether that one is here or not, so that the
-- origin is found in any order of import. Empty: imported by an earlier release, and not looked at yet.
ALTER TABLE sessions ADD COLUMN claimed_origin TEXT;

UPDATE sessions SET claimed_origin = ''
WHERE forked_from IS NULL AND deleted_ms IS NULL AND id IN (SELECT session FROM import_sources);

CREATE INDEX sessions_claims ON sessions (claimed_origin) WHERE claimed_origin IS NOT NULL AND forked_from IS NULL;
CREATE INDEX sessions_deleted ON sessions (session_id) WHERE deleted_ms IS NOT NULL;

-- As before, and copies whose origin is not here are of one family if they name the same.
DROP VIEW usage_by_day;
DROP VIEW usage_view;

CREATE VIEW usage_view AS
WITH RECURSIVE family (session, root, depth) AS (
    SELECT s.id,
           coalesce((SELECT min(o.id) FROM sessions o
                     WHERE o.claimed_origin = s.claimed_origin AND o.forked_from IS NULL
                       AND s.claimed_origin <> '' AND s.forked_from IS NULL), s.id), 0
    FROM sessions s WHERE s.fork_kind IS NOT 'inferred'
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
