-- Only hashes of secrets are here: whoever reads the file gets in with nothing of it.
CREATE TABLE links (
    hash BLOB PRIMARY KEY,
    access TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    hash BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    access TEXT NOT NULL,
    method TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE password (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    salt BLOB NOT NULL,
    hash BLOB NOT NULL,
    memory_kib INTEGER NOT NULL,
    passes INTEGER NOT NULL,
    lanes INTEGER NOT NULL,
    set_at INTEGER NOT NULL
) STRICT;

-- Makes the cookies of two homes on one machine different.
CREATE TABLE home (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    mark TEXT NOT NULL
) STRICT;
INSERT INTO home (id, mark) VALUES (1, lower(hex(randomblob(4))));
