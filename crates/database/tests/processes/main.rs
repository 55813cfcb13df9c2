//! Files that many processes share: what is acknowledged is never lost, and what is not ours is never
//! changed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod killed;
mod lines;
mod opening;
mod together;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use vestal_testkit::sqlite::assert_intact;

const PROGRAM: &str = env!("CARGO_BIN_EXE_database-user");

/// Returns another process that uses a file, ready to start.
fn user(path: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg(path).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Returns the numbers that a process printed. The last line may be cut by a kill; it is not counted
/// as acknowledged then.
fn numbers(printed: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<i64> {
    printed.into_iter().filter_map(|line| line.as_ref().parse().ok()).collect()
}

/// Asserts that a file is intact and has all acknowledged lines.
async fn assert_whole(path: &Path, acknowledged: &BTreeSet<i64>) {
    let mut connection = assert_intact(path).await;
    let stored: Vec<i64> =
        sqlx::query_scalar("SELECT id FROM lines").fetch_all(&mut connection).await.unwrap();
    let stored: BTreeSet<i64> = stored.into_iter().collect();
    let lost: Vec<&i64> = acknowledged.difference(&stored).collect();
    assert!(lost.is_empty(), "{} of {} are lost", lost.len(), acknowledged.len());
}
