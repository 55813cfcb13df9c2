-- Runs of the API and what happened in them.
CREATE TABLE runs (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    model TEXT NOT NULL,
    -- running, completed, failed, cancelled, interrupted
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL, -- milliseconds of Unix time, as all times here
    ended_at INTEGER,
    output TEXT,
    usage TEXT,  -- JSON
    error TEXT,  -- JSON
    last_event INTEGER NOT NULL DEFAULT 0,
    event_bytes INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX runs_open ON runs (key) WHERE ended_at IS NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE events (
    run INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL, -- JSON
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;

-- Answers of /v1/responses.
CREATE TABLE responses (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    last_message INTEGER NOT NULL, -- the last message of the session when it was given
    created_at INTEGER NOT NULL,
    body TEXT NOT NULL -- JSON
);
CREATE INDEX responses_created ON responses (created_at);

-- Answers to requests with an Idempotency-Key. Without a status the request is in progress.
CREATE TABLE replays (
    key INTEGER PRIMARY KEY,
    route TEXT NOT NULL,
    name TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    status INTEGER,
    headers TEXT, -- JSON: a list of pairs
    body BLOB,
    UNIQUE (route, name)
);
CREATE INDEX replays_created ON replays (created_at);
