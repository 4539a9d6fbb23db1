-- Who runs a phase of a task now. What came of a phase is a note in the scratchpad, so that forks and branches each
-- have theirs; a claim is of the session alone, and ends with its time.

CREATE TABLE phase_claims (
    session      INTEGER NOT NULL REFERENCES sessions (id),
    task         TEXT    NOT NULL,
    phase        TEXT    NOT NULL,
    holder       TEXT    NOT NULL,
    expires_ms   INTEGER NOT NULL,
    PRIMARY KEY (session, task, phase)
) STRICT, WITHOUT ROWID;
