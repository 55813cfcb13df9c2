-- All times are milliseconds since 1970, UTC.
CREATE TABLE schedules (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    timing TEXT NOT NULL,
    zone TEXT NOT NULL,
    prompt TEXT NOT NULL,
    -- Lists are JSON.
    skills TEXT NOT NULL,
    model TEXT,
    toolsets TEXT,
    task TEXT NOT NULL,
    workdir TEXT,
    script TEXT,
    delivery TEXT NOT NULL,
    missed TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    anchor INTEGER NOT NULL,
    -- The next due moment, and when it was found: a clock that shows an earlier time was set back.
    next_at INTEGER,
    planned_at INTEGER NOT NULL,
    last_run_at INTEGER,
    last_status TEXT,
    runs INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX schedules_by_next ON schedules (next_at) WHERE state = 'active';

-- The due moments that were taken. This row is the claim: whoever adds it runs the moment, or
-- records why not, and nobody else ever does.
CREATE TABLE moments (
    schedule TEXT NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    due_at INTEGER NOT NULL,
    PRIMARY KEY (schedule, due_at)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    schedule TEXT NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    trigger TEXT NOT NULL,
    status TEXT NOT NULL,
    due_at INTEGER,
    missed INTEGER NOT NULL DEFAULT 0,
    claimed_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    -- The process that runs it, as JSON, and when it is given up if nobody can tell whether that lives.
    owner TEXT,
    deadline_at INTEGER,
    conversation TEXT,
    output TEXT NOT NULL DEFAULT '',
    output_omitted INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    tokens INTEGER,
    micro_usd INTEGER,
    delivered TEXT NOT NULL DEFAULT 'none',
    delivery_error TEXT
) STRICT;

CREATE INDEX runs_of_schedule ON runs (schedule, id);
CREATE INDEX runs_open ON runs (id) WHERE status IN ('requested', 'waiting', 'running');
CREATE INDEX runs_undelivered ON runs (id) WHERE delivered IN ('pending', 'begun');
