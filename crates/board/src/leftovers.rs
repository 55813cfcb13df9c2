//! What ended tasks may have left on hosts, as the board remembers it.
//!
//! A task may have been worked on by several profiles on several hosts, be
//! finished by a person after its worker had left, or be deleted. Each host
//! cleans up for itself: it keeps how far it has come in the finished tasks, and
//! a list of deleted tasks, of which the board has nothing else. Both are notes
//! of the board, so that the next dispatcher of the host continues from there.

use std::collections::BTreeMap;

use async_recursion::async_recursion as boxed;
use serde_json::{Value, json};
use vestal_config::ProfileName;

use crate::Result;
use crate::id::{HostName, TaskId};
use crate::store::{Read, Write};
use crate::task::Task;
use crate::time::Time;

/// The note with the cursor of a host.
const SEEN: &str = "places";
/// The note with the deleted tasks of a host.
const DELETED: &str = "deleted";
/// The most deleted tasks that a host keeps.
const MOST_DELETED: usize = 10_000;
/// The most runs of a task that are looked at.
pub const RUNS: u32 = 50;

/// The last finished task that a host has cleaned up after: when it changed, and
/// its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CleanupCursor {
    /// When the task last changed.
    pub at: Time,
    /// The task's number, which orders tasks that changed at the same moment.
    pub seq: i64,
}

fn named(what: &str, host: &HostName) -> String {
    format!("{what} of {host}")
}

/// Returns how far a host has come; none: it has not started.
#[boxed]
pub async fn cursor(read: &mut (dyn Read + '_), host: &HostName) -> Result<Option<CleanupCursor>> {
    let Some(note) = read.note(&named(SEEN, host)).await? else { return Ok(None) };
    let number = |name: &str| note.get(name).and_then(Value::as_i64);
    let seq = number("seq").unwrap_or(0);
    Ok(number("until").map(|until| CleanupCursor { at: Time::from_millis(until), seq }))
}

/// Writes down how far a host has come.
#[boxed]
pub async fn set_cursor(tx: &mut dyn Write, host: &HostName, cursor: CleanupCursor) -> Result<()> {
    let note = json!({ "until": cursor.at.millis(), "seq": cursor.seq });
    tx.set_note(&named(SEEN, host), Some(&note)).await
}

/// Returns the deleted tasks that a host has not cleaned up after, with the
/// profiles that worked on them there.
#[boxed]
pub async fn deleted(
    read: &mut (dyn Read + '_),
    host: &HostName,
) -> Result<Vec<(TaskId, ProfileName)>> {
    let note = read.note(&named(DELETED, host)).await?;
    let entry = |entry: &Value| {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        Some((text("task")?.parse().ok()?, ProfileName::new(text("profile")?).ok()?))
    };
    let entries = note.as_ref().and_then(Value::as_array);
    Ok(entries.into_iter().flatten().filter_map(entry).collect())
}

/// Replaces the list of a host's deleted tasks.
#[boxed]
pub async fn set_deleted(
    tx: &mut dyn Write,
    host: &HostName,
    entries: &[(TaskId, ProfileName)],
) -> Result<()> {
    let entry = |(task, profile): &(TaskId, ProfileName)| json!({ "task": task, "profile": profile.as_str() });
    let note = Value::Array(entries.iter().map(entry).collect());
    tx.set_note(&named(DELETED, host), Some(&note).filter(|_| !entries.is_empty())).await
}

/// Adds a task that is about to be deleted to the lists of the hosts that worked
/// on it. A host that has cleaned up since the task last changed is left out.
pub(crate) async fn remember_deleted(tx: &mut dyn Write, task: &Task) -> Result<()> {
    let mut entries: BTreeMap<HostName, Vec<(TaskId, ProfileName)>> = BTreeMap::new();
    let mut tasks = vec![task.id.clone()];
    // What its parents left may have been kept for its sake.
    tasks.extend(tx.parents(&task.id).await?.into_iter().map(|parent| parent.id));
    for id in tasks {
        for run in tx.runs(&id, RUNS).await? {
            let (Some(host), Some(profile), Some(_)) =
                (run.host_name(), &run.profile, &run.process)
            else {
                continue;
            };
            entries.entry(host.clone()).or_default().push((id.clone(), profile.clone()));
        }
    }
    for (host, entries) in entries {
        let seen = cursor(&mut *tx, &host).await?;
        if seen.is_some_and(|seen| seen >= CleanupCursor { at: task.updated_at, seq: task.seq }) {
            continue;
        }
        let mut all = deleted(&mut *tx, &host).await?;
        for entry in entries {
            if all.len() < MOST_DELETED && !all.contains(&entry) {
                all.push(entry);
            }
        }
        set_deleted(tx, &host, &all).await?;
    }
    Ok(())
}
