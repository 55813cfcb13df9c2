//! `vestal run true` as a new process that attaches to a running sandbox.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::commands::{Pair, TASK};
use crate::options::Plan;
use crate::stage::Stage;
use vestal_bench::program::BenchProgram;
use vestal_bench::report::BenchRow;
use vestal_bench::sample::{Rounds, in_turn};

pub(crate) const NAME: &str = "vestal run true, new process";

/// Beside `bash -c true`.
pub(crate) async fn measure(
    stage: &Stage,
    plan: Plan,
    program: &BenchProgram,
) -> Result<Vec<BenchRow>> {
    let program = match program {
        Ok(program) => program,
        Err(why) => return Ok(vec![BenchRow::not_run(stage.label(NAME), why)]),
    };
    let rounds = Rounds::new(plan.warm_up, plan.processes);
    let pair = run_pair(stage, program, rounds, || stage.bash("true")).await?;
    Ok(vec![pair.row(stage, NAME)])
}

/// Runs the program in turn with the alternative.
pub(crate) async fn run_pair(
    stage: &Stage,
    program: &Path,
    rounds: Rounds,
    other: impl FnMut() -> Result<()>,
) -> Result<Pair> {
    let ours = async || {
        let output = command(stage, program, "true").output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("vestal run: {}", String::from_utf8_lossy(&output.stderr)).into())
    };
    let (ours, other) = in_turn(rounds, ours, other).await?;
    Ok(Pair { ours, other })
}

/// Returns the command that runs shell text in the sandbox that most rows use.
pub(crate) fn command(stage: &Stage, program: &Path, text: &str) -> Command {
    let mut command = stage.command(program);
    command.env("VESTAL_HOME", stage.home()).args(["run", "--task", TASK, text]);
    command
}
