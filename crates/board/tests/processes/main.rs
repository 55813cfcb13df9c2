//! Many processes at one board: what was acknowledged is never lost.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cases;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use vestal_board::testing;
use vestal_testkit::sqlite::assert_intact;

/// Returns the other process, ready to start.
fn worker(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_board-user"));
    command.arg(dir).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Asserts that the file is whole, that it has all that was acknowledged, and
/// that what is counted in the lanes and told of is what is there.
async fn assert_whole(dir: &Path, acknowledged: &BTreeSet<String>) {
    let mut connection = assert_intact(&testing::file(dir)).await;
    let ids: Vec<String> =
        sqlx::query_scalar("SELECT id FROM tasks").fetch_all(&mut connection).await.unwrap();
    let ids: BTreeSet<String> = ids.into_iter().collect();
    let lost: Vec<&String> = acknowledged.difference(&ids).collect();
    assert!(lost.is_empty(), "{} of {} are lost", lost.len(), acknowledged.len());
    for text in [
        "SELECT coalesce(sum(queued), 0) FROM lanes",
        "SELECT count(DISTINCT task_id) FROM events WHERE kind = 'created'",
    ] {
        let counted: i64 = sqlx::query_scalar(text).fetch_one(&mut connection).await.unwrap();
        assert_eq!(usize::try_from(counted).unwrap(), ids.len(), "{text}");
    }
}
