//! The name of a snapshot that nobody has named.

use async_recursion::async_recursion as boxed;
use jiff::Zoned;
use vestal_sandbox::{CopyError, Engine, Error, SnapshotName, TaskName};

/// Snapshots without a chosen name that a sandbox can have of one minute.
const MOST_A_MINUTE: u32 = 1000;

/// Returns the minute as a name that no snapshot of the sandbox has.
#[boxed]
pub async fn free_snapshot_name(
    engine: &Engine,
    task: &TaskName,
    now: &Zoned,
) -> Result<SnapshotName, Error> {
    let taken = engine.snapshots(Some(task)).await?;
    let is_taken = |name: &SnapshotName| taken.iter().any(|snapshot| snapshot.name == *name);
    name_at(now, is_taken).ok_or_else(|| {
        let (task, name) = (task.to_string(), minute(now));
        CopyError::SnapshotExists { task, name }.into()
    })
}

/// Returns the minute as a name, with a number where it is taken.
fn name_at(now: &Zoned, is_taken: impl Fn(&SnapshotName) -> bool) -> Option<SnapshotName> {
    let minute = minute(now);
    let numbered = (2..=MOST_A_MINUTE).map(|number| format!("{minute}-{number}"));
    let names = std::iter::once(minute.clone()).chain(numbered);
    names.filter_map(|name| name.parse().ok()).find(|name| !is_taken(name))
}

fn minute(now: &Zoned) -> String {
    now.strftime("%Y-%m-%d-%H%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_without_a_name_is_called_after_the_minute_and_never_twice_the_same() {
        let now = jiff::civil::date(2026, 11, 15).at(18, 30, 59, 0);
        let now = now.to_zoned(jiff::tz::TimeZone::UTC).unwrap();
        let mut taken: Vec<SnapshotName> = Vec::new();
        for expected in ["2026-11-15-1830", "2026-11-15-1830-2", "2026-11-15-1830-3"] {
            let name = name_at(&now, |name| taken.contains(name)).unwrap();
            assert_eq!(name.as_str(), expected);
            taken.push(name);
        }
        assert_eq!(name_at(&now, |_| true), None);
    }
}
