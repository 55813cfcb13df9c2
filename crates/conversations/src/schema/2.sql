-- The work that a conversation does for somebody else: an attempt at a task of a board, a run of a
-- schedule. Null for one that a person holds.
ALTER TABLE conversations ADD COLUMN work_kind TEXT;
ALTER TABLE conversations ADD COLUMN work_group TEXT;
ALTER TABLE conversations ADD COLUMN work_item TEXT;
ALTER TABLE conversations ADD COLUMN work_attempt TEXT;

-- What every call of a model took. It says what was spent, so it outlives what it was spent on:
-- conversations are named by their ids, and nothing takes a line back.
CREATE TABLE ledger (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Microseconds since 1970, UTC.
    at INTEGER NOT NULL,
    conversation TEXT NOT NULL,
    source TEXT NOT NULL,
    work_kind TEXT,
    work_group TEXT,
    work_item TEXT,
    work_attempt TEXT,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    micro_usd INTEGER NOT NULL,
    unpriced INTEGER NOT NULL
) STRICT;

CREATE INDEX ledger_by_time ON ledger (at);
CREATE INDEX ledger_by_work ON ledger (work_kind, work_group, work_item)
    WHERE work_kind IS NOT NULL;

-- What was counted before there was a ledger, as one line for each model of a conversation.
INSERT INTO ledger (at, conversation, source, provider, model, calls, input, output, cache_read,
                    cache_write, reasoning, micro_usd, unpriced)
    SELECT c.updated_at, c.id, c.source, u.provider, u.model, u.calls, u.input, u.output,
           u.cache_read, u.cache_write, u.reasoning, u.micro_usd, u.unpriced
    FROM usage u JOIN conversations c ON c.key = u.conversation ORDER BY c.updated_at;

CREATE TRIGGER ledger_keeps_lines BEFORE DELETE ON ledger
BEGIN
    SELECT raise(ABORT, 'the ledger is append-only');
END;

CREATE TRIGGER ledger_keeps_counts BEFORE UPDATE ON ledger
BEGIN
    SELECT raise(ABORT, 'the ledger is append-only');
END;
