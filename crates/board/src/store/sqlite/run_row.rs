//! A run as a row.

use sqlx::sqlite::SqliteRow;

use super::row::{Columns, Value};
use crate::Result;
use crate::host::{Host, HostName};
use crate::id::RunId;
use crate::run::{Outcome, Process, Run};

/// How many columns a run is written to.
pub(super) const WIDTH: usize = 26;

/// The columns that a run is written to.
pub(super) const COLUMNS: [&str; WIDTH] = [
    "task_id",
    "profile",
    "role",
    "owner",
    "host_name",
    "host_boot",
    "process_host",
    "process_boot",
    "process_pid",
    "process_start",
    "started_at",
    "expires_at",
    "heartbeat_at",
    "activity_at",
    "graced",
    "max_runtime",
    "stopping",
    "ended_at",
    "outcome",
    "gone",
    "workspace",
    "session_id",
    "note",
    "error",
    "summary",
    "metadata",
];

/// The columns that a run is read from, in the order of [`read`].
macro_rules! columns {
    () => {
        "runs.id, runs.task_id, runs.profile, runs.role, runs.owner, runs.host_name, \
         runs.host_boot, runs.process_host, runs.process_boot, runs.process_pid, \
         runs.process_start, runs.started_at, runs.expires_at, runs.heartbeat_at, \
         runs.activity_at, runs.graced, runs.max_runtime, runs.stopping, runs.ended_at, \
         runs.outcome, runs.gone, runs.workspace, runs.session_id, runs.note, runs.error, \
         runs.summary, runs.metadata"
    };
}
pub(super) use columns;

/// Returns what is written, in the order of [`COLUMNS`].
pub(super) fn write(run: &Run) -> [Value<'_>; WIDTH] {
    let (host, process) = (run.host.as_ref(), run.process.as_ref());
    [
        (&run.task_id).into(),
        run.profile.as_ref().into(),
        run.role.as_str().into(),
        run.owner.as_str().into(),
        host.map(|host| &host.name).into(),
        host.map(|host| host.boot.as_str()).into(),
        process.map(|process| &process.host.name).into(),
        process.map(|process| process.host.boot.as_str()).into(),
        process.map(|process| process.pid).into(),
        // Ticks since a boot are far from what the type cannot hold.
        process.map(|process| i64::try_from(process.start).unwrap_or(i64::MAX)).into(),
        run.started_at.into(),
        run.expires_at.into(),
        run.heartbeat_at.into(),
        run.activity_at.into(),
        run.graced.into(),
        run.max_runtime.into(),
        run.stopping.map(Outcome::as_str).into(),
        run.ended_at.into(),
        run.outcome.map(Outcome::as_str).into(),
        run.gone.into(),
        run.workspace.as_deref().into(),
        run.session_id.as_deref().into(),
        run.note.as_deref().into(),
        run.error.as_deref().into(),
        run.summary.as_deref().into(),
        run.metadata.as_ref().map(serde_json::Value::to_string).into(),
    ]
}

/// Returns the run of a row of [`columns`].
pub(super) fn read(row: &SqliteRow) -> Result<Run> {
    let mut columns = Columns::of(row, "a run");
    Ok(Run {
        id: RunId::new(columns.int()?),
        task_id: columns.word()?,
        profile: columns.profiles()?,
        role: columns.word()?,
        owner: columns.text()?,
        host: host(&mut columns)?,
        process: process(&mut columns)?,
        started_at: columns.time()?,
        expires_at: columns.time()?,
        heartbeat_at: columns.times()?,
        activity_at: columns.times()?,
        graced: columns.bool()?,
        max_runtime: columns.durations()?,
        stopping: columns.words()?,
        ended_at: columns.times()?,
        outcome: columns.words()?,
        gone: columns.bool()?,
        workspace: columns.texts()?,
        session_id: columns.texts()?,
        note: columns.texts()?,
        error: columns.texts()?,
        summary: columns.texts()?,
        metadata: columns.jsons()?,
    })
}

fn host(columns: &mut Columns<'_>) -> Result<Option<Host>> {
    let (name, boot) = (columns.texts()?, columns.texts()?);
    Ok(name.zip(boot).map(|(name, boot)| Host { name: HostName::new(&name), boot }))
}

fn process(columns: &mut Columns<'_>) -> Result<Option<Process>> {
    let host = host(columns)?;
    let (pid, start) = (columns.counts()?, columns.counts()?);
    Ok(host.zip(pid).zip(start).map(|((host, pid), start)| Process { host, pid, start }))
}
