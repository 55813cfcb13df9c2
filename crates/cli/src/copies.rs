//! Work that copies a sandbox: how far it is is shown, and a signal ends it
//! without a trace.

use std::future::Future;
use std::time::Duration;

use vestal_sandbox::{Engine, Error, Snapshot, SnapshotName, Task, Termination, Terminations};

use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::find;
use crate::follow::unless_terminated;
use crate::suggest;
use crate::values::quoted;

/// How long a copy that was given up may take to be gone.
const UNDO_WITHIN: Duration = Duration::from_mins(1);

/// Does some work with copies; the error is the signal that ended it.
pub(crate) async fn see_done<T>(
    context: &Context,
    engine: &Engine,
    what: &str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<Result<T, Termination>, Failure> {
    let mut signals =
        Terminations::listen().map_err(|error| Failure::io("listen for signals", &error))?;
    let work = context.activity().while_doing(context.console, what, Box::pin(work));
    match unless_terminated(&mut signals, work).await {
        Ok(Ok(done)) => Ok(Ok(done)),
        Ok(Err(error)) => Err(explain(engine, error).await),
        Err(signal) => {
            undo(context, engine, &mut signals).await;
            Ok(Err(signal))
        }
    }
}

/// Waits until what was begun is undone; another signal ends that. Then, and
/// when it takes too long, the next one who uses the sandbox goes on with it.
async fn undo(context: &Context, engine: &Engine, signals: &mut Terminations) {
    let undone = unless_terminated(signals, engine.close(UNDO_WITHIN));
    let undone = context.console.while_waiting("undoing what was begun", undone).await;
    if matches!(undone, Ok(true)) {
        context.console.note("interrupted; nothing half-made is left");
    } else {
        context
            .console
            .warn("what was begun is undone by the next use of the sandbox, or by `vestal prune`");
    }
}

/// Returns the failure of a call that needs the sandbox to stand still.
async fn explain(engine: &Engine, error: Error) -> Failure {
    let busy = matches!(error, Error::Busy { .. });
    let failure = find::explain(engine, error).await;
    if busy { failure.advise("to end what runs there, and go on: --stop") } else { failure }
}

/// Returns the snapshot of a name; if there is none, the failure has the name
/// that was probably meant.
pub(crate) async fn snapshot(
    engine: &Engine,
    task: &Task,
    name: &SnapshotName,
) -> Result<Snapshot, Failure> {
    let mut all = match engine.snapshots(Some(task)).await {
        Ok(all) => all,
        Err(error) => return Err(find::explain(engine, error).await),
    };
    if let Some(at) = all.iter().position(|snapshot| snapshot.name == *name) {
        return Ok(all.swap_remove(at));
    }
    if all.is_empty()
        && let Err(error @ Error::NoSandbox { .. }) = engine.inspect(task).await
    {
        return Err(find::explain(engine, error).await);
    }
    let failure = Failure::new(format!("sandbox {task} has no snapshot {name}"));
    let names = all.iter().map(|snapshot| snapshot.name.as_str());
    let failure = match suggest::closest(name.as_str(), names) {
        Some(meant) => failure.advise(format!("did you mean {meant}?")),
        None => failure,
    };
    let task = quoted(task.as_str());
    Err(if all.is_empty() {
        failure.advise(format!("it has none; to make one: vestal snapshot {task}"))
    } else {
        failure.advise(format!("`vestal snapshots {task}` lists what it has"))
    })
}

/// Returns how much was copied.
pub(crate) fn size(files: u64, bytes: u64) -> String {
    format!("{}, {}", text::count(files, "file"), text::bytes(bytes))
}
