//! `true`, from a program that uses the library, beside the alternative.

use crate::Result;
use crate::fixture::ContractBench;
use crate::options::Plan;
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
    pub(crate) fn row(&self, bench: &ContractBench, what: &str) -> BenchRow {
        BenchRow::times(bench.label(what), &self.ours).beside(Figure::time(self.other.p50()))
    }
}

/// Beside `bash -c true`.
pub(crate) async fn measure(bench: &ContractBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let bash = || bench.bash("true");
    let clean = stateless_pair(bench, TASK, plan.commands(), bash).await?;
    let session = session_pair(bench, TASK, plan.commands(), bash).await?;
    Ok(vec![
        clean.row(bench, STATELESS).bar(Bar::Times(2.0)),
        session.row(bench, SESSION).bar(Bar::Times(2.5)),
    ])
}

/// The same from a runtime of several threads, as servers have.
pub(crate) async fn threaded(bench: &ContractBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let bash = || bench.bash("true");
    let clean = stateless_pair(bench, TASK, plan.commands(), bash).await?;
    Ok(vec![clean.row(bench, "true, stateless, from several threads")])
}

/// Runs `true` without a session in turn with the alternative.
pub(crate) async fn stateless_pair(
    bench: &ContractBench,
    task: &str,
    rounds: Rounds,
    other: impl FnMut() -> Result<()>,
) -> Result<Pair> {
    let sandbox = bench.sandbox(task).await?;
    let clean = async || stateless(&sandbox, "true").await.map(drop);
    let (ours, other) = in_turn(rounds, clean, other).await?;
    Ok(Pair { ours, other })
}

/// Runs `true` in the session that holds the workload, in turn with the
/// alternative.
pub(crate) async fn session_pair(
    bench: &ContractBench,
    task: &str,
    rounds: Rounds,
    other: impl FnMut() -> Result<()>,
) -> Result<Pair> {
    let sandbox = bench.sandbox(task).await?;
    workload::prepare(&sandbox).await?;
    let session = async || in_session(&sandbox, "true").await.map(drop);
    let (ours, other) = in_turn(rounds, session, other).await?;
    Ok(Pair { ours, other })
}
