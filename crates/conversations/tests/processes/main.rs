//! Many processes at one file: what was acknowledged is never lost.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod killed;

use std::path::Path;
use std::process::{Command, Stdio};

use vestal_conversations::{ConversationId, ConversationStore, New};
use vestal_testkit::sqlite::assert_intact;

/// Returns the other process, ready to start.
fn worker(path: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conversations-worker"));
    command.arg(path).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Makes a conversation of a given name.
async fn conversation(store: &ConversationStore, id: &str) -> ConversationId {
    let id: ConversationId = id.parse().unwrap();
    let new = New { id: Some(id.clone()), source: "cli".to_owned(), ..New::default() };
    store.create(new).await.unwrap();
    id
}

/// Asserts that the file is whole, its index too.
async fn assert_whole(path: &Path) {
    let mut connection = assert_intact(path).await;
    sqlx::query("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
        .execute(&mut connection)
        .await
        .unwrap();
    let unfindable: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM messages WHERE key NOT IN (SELECT rowid FROM words)",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert_eq!(unfindable, 0);
}
