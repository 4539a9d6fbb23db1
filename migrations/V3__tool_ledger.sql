-- Tool calls settled after a crash, and tried again.

CREATE TABLE tool_attempts (
    id              INTEGER PRIMARY KEY,
    session         INTEGER NOT NULL REFERENCES sessions (id),
    -- tool_calls.id; in a fork it may be an inherited one.
    call            INTEGER NOT NULL,
    -- The first attempt, number 1, is the call itself.
    number          INTEGER NOT NULL,
    -- The input as it was really run, where that is not what the model asked for.
    ran_input       TEXT,
    started_ms      INTEGER NOT NULL,
    UNIQUE (session, call, number)
) STRICT;
