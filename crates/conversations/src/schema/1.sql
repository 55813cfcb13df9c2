CREATE TABLE conversations (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT UNIQUE,
    source TEXT NOT NULL,
    parent INTEGER REFERENCES conversations (key) ON DELETE SET NULL,
    parent_kind TEXT,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    -- A path is bytes, not text.
    cwd BLOB,
    -- Microseconds since 1970, UTC.
    started_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at INTEGER,
    end_reason TEXT,
    -- Numbers of messages are never used twice.
    next_seq INTEGER NOT NULL DEFAULT 1,
    -- Counted as they come, so that a list reads no messages.
    messages INTEGER NOT NULL DEFAULT 0,
    tool_calls INTEGER NOT NULL DEFAULT 0,
    preview TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX conversations_by_use ON conversations (updated_at);
CREATE INDEX conversations_by_parent ON conversations (parent);

-- Apart from the conversations, whose rows are written again with every message.
CREATE TABLE prompts (
    conversation INTEGER PRIMARY KEY REFERENCES conversations (key) ON DELETE CASCADE,
    text TEXT NOT NULL
) STRICT;

CREATE TABLE messages (
    key INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    -- The order is (place, seq). A message's place is its own number, a summary's
    -- that of the last message it stands for.
    place INTEGER NOT NULL,
    kind TEXT NOT NULL,
    role TEXT NOT NULL,
    at INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    undone INTEGER NOT NULL DEFAULT 0,
    -- The first message of the summary that stands for this one.
    archived_by INTEGER,
    provider TEXT,
    model TEXT,
    usage TEXT,
    cost TEXT,
    body TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX messages_in_order ON messages (conversation, place, seq);

CREATE TABLE usage (
    conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    calls INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    micro_usd INTEGER NOT NULL,
    unpriced INTEGER NOT NULL,
    PRIMARY KEY (conversation, provider, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE state (
    conversation INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (conversation, name)
) STRICT, WITHOUT ROWID;

-- Its rowid is the key of the message.
CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = "unicode61 remove_diacritics 2");

CREATE TRIGGER messages_forgotten AFTER DELETE ON messages
BEGIN
    DELETE FROM words WHERE rowid = old.key;
END;
