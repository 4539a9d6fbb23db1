-- Sessions, their transcripts, and what was imported. docs/SCHEMA.md explains every column.
-- Times are epoch milliseconds (_ms). Views use plain columns only and no function of ours.

CREATE TABLE sessions (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    project_key      TEXT    NOT NULL CHECK (project_key <> ''),
    session_id       TEXT    NOT NULL CHECK (session_id <> ''),
    -- What entries say of the session; first or last one wins (transcript/listing.rs).
    custom_title     TEXT,
    ai_title         TEXT,
    last_prompt      TEXT,
    summary_hint     TEXT,
    first_prompt     TEXT,
    first_command    TEXT,
    tag              TEXT,
    cwd              TEXT,
    git_branch       TEXT,
    entrypoint       TEXT,
    is_sidechain     INTEGER CHECK (is_sidechain IN (0, 1)),
    title            TEXT GENERATED ALWAYS AS (
                         coalesce(nullif(custom_title, ''), nullif(ai_title, ''))
                     ) VIRTUAL,
    summary          TEXT GENERATED ALWAYS AS (
                         coalesce(nullif(custom_title, ''), nullif(ai_title, ''), nullif(last_prompt, ''),
                                  nullif(summary_hint, ''), nullif(first_prompt, ''), nullif(first_command, ''))
                     ) VIRTUAL,
    -- Free JSON of the app's own.
    metadata         TEXT,
    -- Counts of the main transcript, kept up by every append.
    entries          INTEGER NOT NULL DEFAULT 0,
    messages         INTEGER NOT NULL DEFAULT 0,
    turns            INTEGER NOT NULL DEFAULT 0,
    created_ms       INTEGER NOT NULL,
    last_modified_ms INTEGER NOT NULL,
    -- When the row was made, and when the main transcript was last appended to, by this machine's clock.
    stored_ms        INTEGER NOT NULL,
    appended_ms      INTEGER,
    -- Whether lists show it: not a sub-agent's transcript, and not bookkeeping alone.
    listed           INTEGER NOT NULL DEFAULT 1 CHECK (listed IN (0, 1)),
    -- The Agent SDK's own summary of the session, kept as it came, and how often it was set.
    sdk_summary      TEXT,
    sdk_summary_version INTEGER NOT NULL DEFAULT 0,
    deleted_ms       INTEGER
) STRICT;

CREATE UNIQUE INDEX sessions_key ON sessions (project_key, session_id) WHERE deleted_ms IS NULL;
CREATE INDEX sessions_id ON sessions (session_id) WHERE deleted_ms IS NULL;
CREATE INDEX sessions_newest ON sessions (last_modified_ms, id) WHERE deleted_ms IS NULL AND listed = 1;
CREATE INDEX sessions_newest_of_project ON sessions (project_key, last_modified_ms, id)
    WHERE deleted_ms IS NULL AND listed = 1;
CREATE INDEX sessions_newest_of_cwd ON sessions (cwd, last_modified_ms, id)
    WHERE deleted_ms IS NULL AND listed = 1;
CREATE INDEX sessions_tag ON sessions (tag, last_modified_ms, id)
    WHERE deleted_ms IS NULL AND listed = 1 AND tag IS NOT NULL;

-- One row a transcript: the main one ('') and each sub-agent's.
CREATE TABLE transcripts (
    session      INTEGER NOT NULL REFERENCES sessions (id),
    subpath      TEXT    NOT NULL,
    next_seq     INTEGER NOT NULL DEFAULT 1,
    next_line    INTEGER NOT NULL DEFAULT 1,
    -- The message that the next one will hang from, and the message that opened the running turn.
    head         INTEGER,
    turn         INTEGER,
    -- How many messages name a parent that is not there.
    dangling     INTEGER NOT NULL DEFAULT 0,
    entries      INTEGER NOT NULL DEFAULT 0,
    stored_ms    INTEGER NOT NULL,
    PRIMARY KEY (session, subpath)
) STRICT, WITHOUT ROWID;

-- Every entry of every transcript, in the order in which it was stored.
CREATE TABLE messages (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    session        INTEGER NOT NULL REFERENCES sessions (id),
    subpath        TEXT    NOT NULL,
    seq            INTEGER NOT NULL,
    -- The place among the messages of the transcript's main line; NULL for everything else.
    line           INTEGER,
    uuid           TEXT,
    parent         INTEGER,
    parent_uuid    TEXT,
    kind           TEXT    NOT NULL,
    subtype        TEXT,
    role           TEXT,
    is_sidechain   INTEGER NOT NULL DEFAULT 0 CHECK (is_sidechain IN (0, 1)),
    is_meta        INTEGER NOT NULL DEFAULT 0 CHECK (is_meta IN (0, 1)),
    agent          TEXT,
    turn           INTEGER,
    api_message_id TEXT,
    model          TEXT,
    input_tokens       INTEGER,
    output_tokens      INTEGER,
    cache_read_tokens  INTEGER,
    cache_write_tokens INTEGER,
    timestamp_ms   INTEGER,
    stored_ms      INTEGER NOT NULL,
    import_source  INTEGER,
    -- What follows the entry in its file, where that is not a line feed.
    line_end       TEXT CHECK (line_end IN ('eof', 'joined')),
    entry          TEXT,
    raw            BLOB
) STRICT;

CREATE UNIQUE INDEX messages_seq ON messages (session, subpath, seq);
CREATE UNIQUE INDEX messages_uuid ON messages (session, subpath, uuid) WHERE uuid IS NOT NULL;
CREATE UNIQUE INDEX messages_line ON messages (session, subpath, line) WHERE line IS NOT NULL;
CREATE INDEX messages_dangling ON messages (session, subpath, parent_uuid)
    WHERE parent IS NULL AND parent_uuid IS NOT NULL;

-- One row a call block. The input is a slice of the message's entry, in bytes.
CREATE TABLE tool_calls (
    id           INTEGER PRIMARY KEY,
    session      INTEGER NOT NULL REFERENCES sessions (id),
    message      INTEGER NOT NULL,
    tool_use_id  TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    input_at     INTEGER NOT NULL,
    input_bytes  INTEGER NOT NULL,
    agent        TEXT,
    turn         INTEGER,
    started_ms   INTEGER NOT NULL
) STRICT;

CREATE INDEX tool_calls_id ON tool_calls (session, tool_use_id, message);

-- One row a result block. `call` is NULL for a result without its call.
CREATE TABLE tool_results (
    id           INTEGER PRIMARY KEY,
    session      INTEGER NOT NULL REFERENCES sessions (id),
    message      INTEGER NOT NULL,
    call         INTEGER,
    tool_use_id  TEXT    NOT NULL,
    outcome      TEXT    NOT NULL CHECK (outcome IN ('ok', 'error', 'rejected', 'interrupted', 'unknown')),
    stored_ms    INTEGER NOT NULL
) STRICT;

CREATE INDEX tool_results_id ON tool_results (session, tool_use_id, message);
CREATE INDEX tool_results_call ON tool_results (call) WHERE call IS NOT NULL;

-- What an import has read of each file, so that the next one takes only what is new.
CREATE TABLE import_sources (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    session      INTEGER NOT NULL REFERENCES sessions (id),
    subpath      TEXT    NOT NULL,
    path         TEXT    NOT NULL,
    -- The whole lines read, the entries in them, their bytes, and the BLAKE3 hash of those bytes.
    lines        INTEGER NOT NULL,
    entries      INTEGER NOT NULL,
    bytes        INTEGER NOT NULL,
    prefix_hash  BLOB    NOT NULL,
    -- The transcript's next_seq, while the transcript is exactly what was read of this file.
    in_sync_seq  INTEGER,
    imported_ms  INTEGER NOT NULL,
    UNIQUE (session, subpath, path)
) STRICT;

-- Contents of files, each stored once.
CREATE TABLE blobs (
    id           INTEGER PRIMARY KEY,
    hash         BLOB    NOT NULL UNIQUE,
    bytes        INTEGER NOT NULL,
    encoding     TEXT    NOT NULL CHECK (encoding IN ('plain', 'zstd')),
    content      BLOB    NOT NULL
) STRICT;

-- Files that belong to a session beside its transcripts: large outputs, checkpoint backups.
CREATE TABLE session_files (
    id           INTEGER PRIMARY KEY,
    session      INTEGER NOT NULL REFERENCES sessions (id),
    path         TEXT    NOT NULL,
    blob         INTEGER NOT NULL REFERENCES blobs (id),
    mode         INTEGER NOT NULL,
    modified_ms  INTEGER,
    stored_ms    INTEGER NOT NULL,
    UNIQUE (session, path)
) STRICT;

CREATE INDEX session_files_blob ON session_files (blob);

-- Everything done to a session, but for its appends.
CREATE TABLE operations (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    session      INTEGER NOT NULL REFERENCES sessions (id),
    kind         TEXT    NOT NULL,
    at_ms        INTEGER NOT NULL,
    by           TEXT,
    detail       TEXT
) STRICT;

CREATE INDEX operations_session ON operations (session, id);

-- Entries with the names of their session.
CREATE VIEW transcript_view AS
SELECT s.project_key, s.session_id, m.subpath, m.seq, m.kind, m.subtype, m.role, m.uuid, m.parent_uuid,
       m.is_sidechain, m.is_meta, m.agent, m.api_message_id, m.model, m.timestamp_ms, m.stored_ms,
       t.uuid AS turn_uuid, m.entry, m.raw
FROM messages m
JOIN sessions s ON s.id = m.session
LEFT JOIN messages t ON t.id = m.turn
WHERE s.deleted_ms IS NULL;

-- Turns of main transcripts: a prompt (or a task notification) and everything until the next.
CREATE VIEW turns AS
SELECT s.project_key, s.session_id, m.uuid AS prompt_uuid, m.seq, m.timestamp_ms, m.stored_ms, m.id AS turn,
       (SELECT count(*) FROM tool_calls c WHERE c.session = m.session AND c.turn = m.id) AS tool_calls,
       m.entry
FROM messages m
JOIN sessions s ON s.id = m.session
WHERE m.turn = m.id AND s.deleted_ms IS NULL;

-- Tool calls with their input as JSON text and the result that answers them, if there is one.
CREATE VIEW tool_call_view AS
SELECT s.project_key, s.session_id, m.subpath, c.tool_use_id, c.name,
       CAST(substr(CAST(m.entry AS BLOB), c.input_at + 1, c.input_bytes) AS TEXT) AS input,
       c.agent, t.uuid AS turn_uuid, m.uuid AS message_uuid, c.started_ms,
       (SELECT r.outcome FROM tool_results r WHERE r.call = c.id ORDER BY r.id LIMIT 1) AS outcome
FROM tool_calls c
JOIN messages m ON m.id = c.message
JOIN sessions s ON s.id = c.session
LEFT JOIN messages t ON t.id = c.turn
WHERE s.deleted_ms IS NULL;
