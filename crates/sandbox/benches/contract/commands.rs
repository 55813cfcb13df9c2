//! `true`, from a program that uses the library, beside the alternative.

use crate::Result;
use crate::options::Plan;
use crate::stage::Stage;
use crate::workload::{self, in_session, stateless};
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::{Rounds, Samples, in_turn};

/// The sandbox that most rows use.
pub(crate) const TASK: &str = "bench";

pub(crate) const STATELESS: &str = "true, stateless";
pub(crate) const SESSION: &str = "true, session";

/// Runs of a command, ours and the alternative's.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) ours: Samples,
    pub(crate) other: Samples,
}

impl Pair {
    /// Returns the row of this pair.
    pub(crate) fn row(&self, stage: &Stage, what: &str) -> BenchRow {
        BenchRow::times(stage.label(what), &self.ours).beside(Figure::time(self.other.p50()))
    }
}

/// Beside `bash -c true`.
pub(crate) async fn measure(stage: &Stage, plan: Plan) -> Result<Vec<BenchRow>> {
    let bash = || stage.bash("true");
    let clean = stateless_pair(stage, TASK, plan.commands(), bash).await?;
    let session = session_pair(stage, TASK, plan.commands(), bash).await?;
    Ok(vec![
        clean.row(stage, STATELESS).bar(Bar::Times(2.0)),
        session.row(stage, SESSION).bar(Bar::Times(2.5)),
    ])
}

/// The same from a runtime of several threads, as servers have.
pub(crate) async fn threaded(stage: &Stage, plan: Plan) -> Result<Vec<BenchRow>> {
    let bash = || stage.bash("true");
    let clean = stateless_pair(stage, TASK, plan.commands(), bash).await?;
    Ok(vec![clean.row(stage, "true, stateless, from several threads")])
}

/// Runs `true` without a session in turn with the alternative.
pub(crate) async fn stateless_pair(
    stage: &Stage,
    task: &str,
    rounds: Rounds,
    other: impl FnMut() -> Result<()>,
) -> Result<Pair> {
    let sandbox = stage.sandbox(task).await?;
    let clean = async || stateless(&sandbox, "true").await.map(drop);
    let (ours, other) = in_turn(rounds, clean, other).await?;
    Ok(Pair { ours, other })
}

/// Runs `true` in the session that holds the workload, in turn with the
/// alternative.
pub(crate) async fn session_pair(
    stage: &Stage,
    task: &str,
    rounds: Rounds,
    other: impl FnMut() -> Result<()>,
) -> Result<Pair> {
    let sandbox = stage.sandbox(task).await?;
    workload::prepare(&sandbox).await?;
    let session = async || in_session(&sandbox, "true").await.map(drop);
    let (ours, other) = in_turn(rounds, session, other).await?;
    Ok(Pair { ours, other })
}
