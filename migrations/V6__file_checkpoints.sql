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
