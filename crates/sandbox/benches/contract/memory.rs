//! What a guest weighs.

use vestal_sandbox::GUEST;

use crate::Result;
use crate::commands::TASK;
use crate::fixture::ContractBench;
use crate::process::guest_pid;
use vestal_bench::program::resident;
use vestal_bench::report::{Bar, BenchRow, Figure};

pub(crate) const NAME: &str = "guest memory, idle";

pub(crate) async fn measure(bench: &ContractBench) -> Result<Vec<BenchRow>> {
    let sandbox = bench.sandbox(TASK).await?;
    Ok(vec![
        idle(bench, guest_pid(bench, &sandbox).await?)?,
        BenchRow::single("guest file", Figure::size(GUEST.len() as u64))
            .bar(Bar::AtMost(Figure::Mebibytes(2.0))),
    ])
}

/// Returns the row of a guest's memory: after all that was done to it before,
/// not of a fresh one.
pub(crate) fn idle(bench: &ContractBench, guest: u32) -> Result<BenchRow> {
    Ok(BenchRow::single(bench.label(NAME), Figure::size(resident(guest)?))
        .bar(Bar::AtMost(Figure::Mebibytes(4.0))))
}
