-- Times are milliseconds since 1970, UTC; durations are milliseconds; yes and no
-- are 1 and 0; what is a list or an object is JSON.

CREATE TABLE tasks (
    -- The order in which tasks were made.
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL,
    -- Kept for the indexes below, all made of the other columns: where lists
    -- show the task, whose queue it stands in, and its place there.
    shelf INTEGER NOT NULL,
    queue_as TEXT,
    rank INTEGER NOT NULL,
    assignee TEXT,
    -- Empty where there is none, so that it can be looked up like any other.
    tenant TEXT NOT NULL,
    workspace_host TEXT NOT NULL,
    priority INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER,
    queued_at INTEGER,
    wake_at INTEGER,
    guard TEXT,
    pending_parents INTEGER NOT NULL CHECK (pending_parents >= 0),
    -- No foreign keys: runs are forgotten before the tasks they made or worked on.
    current_run INTEGER,
    running_as TEXT,
    created_by TEXT NOT NULL,
    created_by_run INTEGER,
    depth INTEGER NOT NULL,
    session_id TEXT,
    workspace_kind TEXT NOT NULL,
    workspace_path TEXT,
    workspace_branch TEXT,
    max_runtime INTEGER,
    max_retries INTEGER,
    model TEXT,
    idempotency_key TEXT,
    block_kind TEXT,
    block_recurrences INTEGER NOT NULL,
    gate INTEGER NOT NULL,
    needs_review INTEGER NOT NULL,
    reviewer TEXT,
    -- What may be long comes last, so that a scan need not pass it.
    title TEXT NOT NULL,
    attention TEXT,
    skills TEXT NOT NULL,
    block_reason TEXT,
    result TEXT,
    body TEXT NOT NULL
) STRICT;

-- The first page of a list is read off one of these. What few lists ask for
-- has an index of those tasks alone, and an assignee is passed over within the
-- first: each index of all tasks costs a page with every commit.
CREATE INDEX tasks_by_shelf ON tasks (shelf, rank, seq, assignee);
CREATE INDEX tasks_by_tenant ON tasks (tenant, shelf, rank, seq) WHERE tenant <> '';
CREATE INDEX tasks_by_session ON tasks (session_id, shelf, rank, seq) WHERE session_id IS NOT NULL;

-- The queues, one lane after the other.
CREATE INDEX tasks_queued ON tasks (queue_as, tenant, workspace_host, rank, seq, queued_at)
    WHERE queue_as IS NOT NULL;
CREATE INDEX tasks_by_moment ON tasks (wake_at, seq) WHERE wake_at IS NOT NULL;
CREATE INDEX tasks_guarded ON tasks (wake_at, seq)
    WHERE wake_at IS NOT NULL AND status IN ('ready', 'review');
CREATE INDEX tasks_by_maker ON tasks (created_by_run) WHERE created_by_run IS NOT NULL;

-- With the same key the same task is meant, however many ask at once.
CREATE UNIQUE INDEX tasks_by_key ON tasks (idempotency_key)
    WHERE idempotency_key IS NOT NULL AND status <> 'archived';

-- How many tasks are in each queue, counted as they come and go.
CREATE TABLE lanes (
    profile TEXT NOT NULL,
    tenant TEXT NOT NULL,
    host TEXT NOT NULL,
    queued INTEGER NOT NULL CHECK (queued >= 0),
    guarded INTEGER NOT NULL CHECK (guarded >= 0),
    running INTEGER NOT NULL CHECK (running >= 0),
    PRIMARY KEY (profile, tenant, host)
) STRICT, WITHOUT ROWID;

CREATE TABLE links (
    child TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    parent TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (child, parent),
    CHECK (child <> parent)
) STRICT, WITHOUT ROWID;

CREATE INDEX links_by_parent ON links (parent, child);

-- Numbers of runs are fencing tokens: none comes back, also not of a run that
-- was forgotten.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    profile TEXT,
    role TEXT NOT NULL,
    owner TEXT NOT NULL,
    host_name TEXT,
    host_boot TEXT,
    process_host TEXT,
    process_boot TEXT,
    process_pid INTEGER,
    process_start INTEGER,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    heartbeat_at INTEGER,
    activity_at INTEGER,
    graced INTEGER NOT NULL,
    max_runtime INTEGER,
    stopping TEXT,
    ended_at INTEGER,
    outcome TEXT,
    gone INTEGER NOT NULL,
    workspace TEXT,
    session_id TEXT,
    note TEXT,
    error TEXT,
    summary TEXT,
    metadata TEXT
) STRICT;

CREATE INDEX runs_by_task ON runs (task_id, id);
CREATE INDEX runs_alive ON runs (id) WHERE ended_at IS NULL OR gone = 0;
CREATE INDEX runs_completed ON runs (profile, ended_at, id) WHERE outcome = 'completed';

CREATE TABLE failures (
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    cause TEXT NOT NULL,
    count INTEGER NOT NULL,
    at INTEGER NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (task_id, cause)
) STRICT, WITHOUT ROWID;

-- Whoever follows the events asks for those after a number, so none may come
-- back: the newest row stays. Where a task goes with the newest events, a row
-- without a task keeps their place.
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    task_id TEXT REFERENCES tasks (id) ON DELETE CASCADE,
    run_id INTEGER,
    kind TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    payload TEXT NOT NULL
) STRICT;

CREATE INDEX events_by_task ON events (task_id, id);

CREATE TABLE comments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    author TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE INDEX comments_by_task ON comments (task_id, id);

CREATE TABLE attachments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    filename TEXT NOT NULL,
    stored_as TEXT NOT NULL,
    host TEXT NOT NULL,
    content_type TEXT,
    size INTEGER NOT NULL,
    uploaded_by TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX attachments_by_task ON attachments (task_id, id);

CREATE TABLE notes (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
