-- File checkpoints. docs/SCHEMA.md explains every column.

-- What a large content is made of. Such a blob has an empty `content`, encoding `plain`, and the bytes
-- of its parts in order; a part is a blob like any other, and may have parts itself.
CREATE TABLE blob_parts (
    id           INTEGER PRIMARY KEY,
    blob         INTEGER NOT NULL REFERENCES blobs (id),
    position     INTEGER NOT NULL,
    part         INTEGER NOT NULL REFERENCES blobs (id),
    UNIQUE (blob, position)
) STRICT;

CREATE INDEX blob_parts_part ON blob_parts (part);

-- Whether the changes of a session's tool calls are kept.
ALTER TABLE sessions ADD COLUMN file_checkpoints INTEGER NOT NULL DEFAULT 1 CHECK (file_checkpoints IN (0, 1));

-- Folders within which a session's files may be rewound, beside its cwd.
CREATE TABLE roots (
    session       INTEGER NOT NULL REFERENCES sessions (id),
    path          TEXT    NOT NULL,
    path_raw      BLOB,
    added_ms      INTEGER NOT NULL,
    UNIQUE (session, path, path_raw)
) STRICT;

-- What one tool call, or one rewind, did to one path. Rows are in the order in which they were committed.
CREATE TABLE file_changes (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    session       INTEGER NOT NULL REFERENCES sessions (id),
    source        TEXT    NOT NULL CHECK (source IN ('tool', 'watch', 'rewind', 'undo', 'take', 'checkout', 'import')),
    -- The rewind, undo, take or checkout that made it (operations.id).
    operation     INTEGER,
    -- As the capture named them: it may come before the call, or the prompt, is stored.
    tool_use_id   TEXT,
    agent         TEXT,
    prompt_id     TEXT,
    -- Bound when those are stored: the call, the turn it belongs to, and the message of the main transcript that it
    -- belongs to (a sub-agent's change belongs to the turn that launched the sub-agent).
    call          INTEGER,
    turn          INTEGER,
    message       INTEGER,
    -- The newest row of messages when it was recorded.
    seen_message  INTEGER NOT NULL,
    -- Absolute. `path_raw` has its bytes where they are not UTF-8.
    path          TEXT    NOT NULL,
    path_raw      BLOB,
    before_state  TEXT    NOT NULL CHECK (before_state IN ('absent', 'file', 'symlink', 'directory', 'not_kept')),
    before_blob   INTEGER REFERENCES blobs (id),
    -- NULL where it was not recorded: a transcript tells contents without modes.
    before_mode   INTEGER,
    before_target BLOB,
    before_why    TEXT,
    -- NULL until what the tool left was recorded.
    after_state   TEXT    CHECK (after_state IN ('absent', 'file', 'symlink', 'directory', 'not_kept')),
    after_blob    INTEGER REFERENCES blobs (id),
    after_mode    INTEGER,
    after_target  BLOB,
    after_why     TEXT,
    -- 'tool': recorded when the tool was done. 'late': what was found there later.
    after_seen    TEXT    CHECK (after_seen IN ('tool', 'late')),
    -- How many of the folders that the path lies in were not there before, innermost first.
    new_folders   INTEGER NOT NULL DEFAULT 0,
    before_ms     INTEGER NOT NULL,
    after_ms      INTEGER
) STRICT;

CREATE INDEX file_changes_session ON file_changes (session, id);
CREATE INDEX file_changes_path ON file_changes (path, id);
CREATE INDEX file_changes_call ON file_changes (session, tool_use_id) WHERE tool_use_id IS NOT NULL;
CREATE INDEX file_changes_prompt ON file_changes (session, prompt_id) WHERE turn IS NULL AND prompt_id IS NOT NULL;
CREATE INDEX file_changes_before ON file_changes (before_blob) WHERE before_blob IS NOT NULL;
CREATE INDEX file_changes_after ON file_changes (after_blob) WHERE after_blob IS NOT NULL;

-- Sessions of which an import took in records of edits, and has not made file changes of them yet.
CREATE TABLE checkpoints_due (
    session       INTEGER PRIMARY KEY REFERENCES sessions (id),
    noted_ms      INTEGER NOT NULL
) STRICT;

INSERT INTO checkpoints_due (session, noted_ms) SELECT session, max(imported_ms) FROM import_sources GROUP BY session;

-- Commands that are or were watched, a row for each root: what of their effects is known, and what is not.
CREATE TABLE watched_calls (
    id            INTEGER PRIMARY KEY,
    session       INTEGER NOT NULL REFERENCES sessions (id),
    tool_use_id   TEXT    NOT NULL,
    root          TEXT    NOT NULL,
    root_raw      BLOB,
    -- What was there before the command (the library's own form), until it is over.
    scan          BLOB,
    -- JSON: what lay outside the bounds. NULL until the command is over.
    not_covered   TEXT,
    at_ms         INTEGER NOT NULL
) STRICT;

CREATE INDEX watched_calls_call ON watched_calls (session, tool_use_id);

-- What was last seen of a work tree, so that the next scan reads only what changed (the library's own form).
CREATE TABLE scans (
    id            INTEGER PRIMARY KEY,
    root          TEXT    NOT NULL,
    root_raw      BLOB,
    scan          BLOB    NOT NULL,
    at_ms         INTEGER NOT NULL
) STRICT;

CREATE INDEX scans_root ON scans (root);

-- Names given to restore points.
CREATE TABLE labels (
    session       INTEGER NOT NULL REFERENCES sessions (id),
    name          TEXT    NOT NULL CHECK (name <> ''),
    -- A prompt (messages.id), or a tool call by its id; neither is the beginning of the session.
    message       INTEGER,
    tool_use_id   TEXT,
    made_ms       INTEGER NOT NULL,
    PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;

-- Rewinds, undos, and files taken over from other sessions. One row each, from before the first file is touched.
CREATE TABLE rewinds (
    operation     INTEGER PRIMARY KEY REFERENCES operations (id),
    session       INTEGER NOT NULL REFERENCES sessions (id),
    kind          TEXT    NOT NULL CHECK (kind IN ('rewind', 'undo', 'take')),
    restores      TEXT    NOT NULL CHECK (restores IN ('files', 'conversation', 'both')),
    -- The restore point as it was named; of an undo the operation that it takes back, of a take the session.
    point         TEXT    NOT NULL,
    undoes        INTEGER,
    -- 'part': something was left as it was. 'put_back': nothing was changed in the end.
    status        TEXT    NOT NULL CHECK (status IN ('unfinished', 'done', 'part', 'put_back')),
    accepts_part  INTEGER NOT NULL CHECK (accepts_part IN (0, 1)),
    -- The head and the scratchpad before it, and as it leaves them (messages.id, scratchpad.id).
    head_before   INTEGER,
    head_after    INTEGER,
    scratch_before INTEGER,
    scratch_after INTEGER,
    begun_ms      INTEGER NOT NULL,
    finished_ms   INTEGER
) STRICT;

CREATE INDEX rewinds_session ON rewinds (session, operation);
CREATE INDEX rewinds_unfinished ON rewinds (operation) WHERE status = 'unfinished';

-- The files of a rewind: what was there, what is to be there, and what came of it.
CREATE TABLE rewind_files (
    operation     INTEGER NOT NULL REFERENCES rewinds (operation),
    position      INTEGER NOT NULL,
    -- The folder that it is reached through, and which one that was.
    root          BLOB    NOT NULL,
    root_device   INTEGER NOT NULL,
    root_inode    INTEGER NOT NULL,
    path          TEXT    NOT NULL,
    path_raw      BLOB,
    action        TEXT    NOT NULL,
    outcome       TEXT    NOT NULL CHECK (outcome IN ('planned', 'done', 'left', 'failed')),
    reason        TEXT,
    before_state  TEXT    NOT NULL,
    before_blob   INTEGER REFERENCES blobs (id),
    before_mode   INTEGER,
    before_target BLOB,
    before_why    TEXT,
    after_state   TEXT    NOT NULL,
    after_blob    INTEGER REFERENCES blobs (id),
    after_mode    INTEGER,
    after_target  BLOB,
    after_why     TEXT,
    -- The name it is written under before it is renamed.
    temp          TEXT,
    -- How many of its folders are to be made, and how many to be removed if they are empty.
    new_folders   INTEGER NOT NULL,
    old_folders   INTEGER NOT NULL,
    -- The row of file_changes that tells of it.
    change        INTEGER,
    PRIMARY KEY (operation, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX rewind_files_before ON rewind_files (before_blob) WHERE before_blob IS NOT NULL;
CREATE INDEX rewind_files_after ON rewind_files (after_blob) WHERE after_blob IS NOT NULL;

-- What happened to each path, by the names of its session.
CREATE VIEW file_history AS
SELECT f.path, s.project_key, s.session_id, f.id AS change, f.source, f.operation, f.tool_use_id, f.agent,
       c.name AS tool, t.uuid AS turn_uuid, f.before_state, f.before_mode, b.bytes AS before_bytes,
       hex(b.hash) AS before_hash, f.after_state, f.after_mode, a.bytes AS after_bytes, hex(a.hash) AS after_hash,
       f.after_seen, f.before_ms, f.after_ms
FROM file_changes f
JOIN sessions s ON s.id = f.session
LEFT JOIN tool_calls c ON c.id = f.call
LEFT JOIN messages t ON t.id = f.turn
LEFT JOIN blobs b ON b.id = f.before_blob
LEFT JOIN blobs a ON a.id = f.after_blob
WHERE s.deleted_ms IS NULL;
