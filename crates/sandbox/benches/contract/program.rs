//! `vestal run true` as a new process that attaches to a running sandbox.

use std::path::{Path, PathBuf};
use std::process::Command;

use vestal_config::Environment;

use crate::Result;
use crate::commands::{Pair, TASK};
use crate::options::Plan;
use crate::report::Row;
use crate::sample::{Rounds, in_turn};
use crate::stage::Stage;

pub(crate) const NAME: &str = "vestal run true, new process";

/// The program, or why there is none.
pub(crate) type Program = std::result::Result<PathBuf, String>;

/// Beside `bash -c true`.
pub(crate) async fn measure(stage: &Stage, plan: Plan, program: &Program) -> Result<Vec<Row>> {
    let program = match program {
        Ok(program) => program,
        Err(why) => return Ok(vec![Row::not_run(stage.label(NAME), why)]),
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

/// Returns the program, built from the sources that the benchmark was built
/// from: one that is there may be of earlier ones.
pub(crate) fn build() -> Program {
    // This is <target>/<profile>/deps/contract-….
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let profile_dir = own.ancestors().nth(2);
    let (Some(profile_dir), Some(target_dir)) = (profile_dir, own.ancestors().nth(3)) else {
        return Err("the benchmark is in no target directory".to_owned());
    };
    let cargo = Environment::capture().get("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--locked", "--package", "vestal-cli"])
        .arg("--target-dir")
        .arg(target_dir)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .map_err(|error| format!("the program cannot be built: cargo: {error}"))?;
    if output.status.success() {
        return Ok(profile_dir.join("vestal"));
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let first = said.lines().find(|line| line.starts_with("error")).unwrap_or("no reason given");
    Err(format!("the program does not build: {first}"))
}
