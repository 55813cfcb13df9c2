//! `vestal run true` as a new process that attaches to a running sandbox.

use std::path::{Path, PathBuf};
use std::process::Command;

use vestal_config::Environment;

use crate::Result;
use crate::commands::TASK;
use crate::options::Plan;
use crate::report::{Figure, Row};
use crate::sample::in_turn;
use crate::stage::Stage;

const WHAT: &str = "vestal run true, new process";

pub(crate) async fn measure(stage: &Stage, plan: Plan) -> Result<Vec<Row>> {
    let program = match find_or_build() {
        Ok(program) => program,
        Err(error) => return Ok(vec![Row::not_run(WHAT, error.to_string())]),
    };
    let ours = async || {
        let output = stage
            .command(&program)
            .env("VESTAL_HOME", stage.home())
            .args(["run", "--task", TASK, "true"])
            .output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("vestal run: {}", String::from_utf8_lossy(&output.stderr)).into())
    };
    let bash = || stage.bash("true");
    let (ours, bash) = in_turn(plan.warm_up, plan.processes, ours, bash).await?;
    Ok(vec![Row::times(WHAT, &ours).beside(Figure::time(bash.p50()))])
}

/// Returns the program of the same build, making it if it is not there.
fn find_or_build() -> Result<PathBuf> {
    // This is <target>/<profile>/deps/contract-….
    let own = std::env::current_exe()?;
    let profile_dir = own.ancestors().nth(2).ok_or("the benchmark is in no target directory")?;
    let program = profile_dir.join("vestal");
    if !program.exists() {
        build(profile_dir)?;
    }
    Ok(program)
}

fn build(profile_dir: &Path) -> Result<()> {
    let cargo = Environment::capture().get("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
    let target_dir = profile_dir.parent().ok_or("the benchmark is in no target directory")?;
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "vestal-cli", "--target-dir"])
        .arg(target_dir)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let first = said.lines().find(|line| line.starts_with("error")).unwrap_or("no reason given");
    Err(format!("the program does not build: {first}").into())
}
