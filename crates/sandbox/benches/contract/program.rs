//! `vestal run true` as a new process that attaches to a running sandbox.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::commands::{Pair, TASK};
use crate::fixture::ContractBench;
use crate::options::Plan;
use vestal_bench::program::BenchProgram;
use vestal_bench::report::BenchRow;
use vestal_bench::sample::{Rounds, in_turn};

pub(crate) const NAME: &str = "vestal run true, new process";

/// Beside `bash -c true`.
pub(crate) async fn measure(
    bench: &ContractBench,
    plan: Plan,
    program: &BenchProgram,
) -> Result<Vec<BenchRow>> {
    let program = match program {
        Ok(program) => program,
        Err(why) => return Ok(vec![BenchRow::not_run(bench.label(NAME), why)]),
    };
    let rounds = Rounds::new(plan.warm_up, plan.processes);
    let pair = run_pair(bench, program, rounds, || bench.bash("true")).await?;
    Ok(vec![pair.row(bench, NAME)])
}

/// Runs the program in turn with the alternative.
pub(crate) async fn run_pair(
    bench: &ContractBench,
    program: &Path,
    rounds: Rounds,
    other: impl FnMut() -> Result<()>,
) -> Result<Pair> {
    let ours = async || {
        let output = command(bench, program, "true").output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("vestal run: {}", String::from_utf8_lossy(&output.stderr)).into())
    };
    let (ours, other) = in_turn(rounds, ours, other).await?;
    Ok(Pair { ours, other })
}

/// Returns the command that runs shell text in the sandbox that most rows use.
pub(crate) fn command(bench: &ContractBench, program: &Path, text: &str) -> Command {
    let mut command = bench.command(program);
    command.env("VESTAL_HOME", bench.home()).args(["run", "--task", TASK, text]);
    command
}
