//! What it takes until a sandbox that does not run has run its first command.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use vestal_sandbox::{FilesOnRemoval, TaskName};

use crate::Result;
use crate::fixture::ContractBench;
use crate::options::Plan;
use crate::workload::stateless;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;

pub(super) const NEW: &str = "new sandbox, first command done";
pub(super) const STOPPED: &str = "stopped sandbox, first command done";

/// Rounds that are not counted.
const WARM_UP: usize = 3;

/// What of the system the alternative shows, as ours does.
const SHOWN: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Beside bubblewrap, which runs the same shell text in a sandbox that shows
/// and hides about the same and keeps nothing.
pub(super) async fn measure(bench: &ContractBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let mut other = bubblewrap(bench)?;
    let (mut new, mut stopped) = (Samples::default(), Samples::default());
    let mut others = Samples::default();
    for number in 0..WARM_UP + plan.lives {
        let counted = number >= WARM_UP;
        let name = format!("life-{number}");
        let task: TaskName = name.parse()?;
        first_command(bench, &name, counted.then_some(&mut new)).await?;
        if let Some(other) = &mut other {
            let start = Instant::now();
            let output = other.output()?;
            if !output.status.success() {
                let printed = String::from_utf8_lossy(&output.stderr);
                return Err(format!("bubblewrap failed: {printed}").into());
            }
            if counted {
                others.push(start.elapsed());
            }
        }
        if !bench.engine.stop(&task).await? {
            return Err("a sandbox that was to be stopped did not run".into());
        }
        first_command(bench, &name, counted.then_some(&mut stopped)).await?;
        bench.engine.remove(&task, FilesOnRemoval::Remove).await?;
    }
    let row = BenchRow::times(bench.label(NEW), &new).bar(Bar::Times(4.0));
    let row = match other {
        Some(_) => row.beside(Figure::time(others.p50())),
        None => row.note("bubblewrap is not installed"),
    };
    Ok(vec![row, BenchRow::times(bench.label(STOPPED), &stopped)])
}

async fn first_command(
    bench: &ContractBench,
    task: &str,
    samples: Option<&mut Samples>,
) -> Result<()> {
    let start = Instant::now();
    let sandbox = bench.sandbox(task).await?;
    stateless(&sandbox, "true").await?;
    if let Some(samples) = samples {
        samples.push(start.elapsed());
    }
    Ok(())
}

/// Returns the command of the alternative, if it is installed.
fn bubblewrap(bench: &ContractBench) -> Result<Option<Command>> {
    let Some(program) = bench.find_program("bwrap") else {
        return Ok(None);
    };
    let workspace = bench.home().join("bubblewrap");
    std::fs::create_dir_all(&workspace)?;
    let mut command = bench.command(program);
    command.args(["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
    command.args(["--die-with-parent", "--new-session"]);
    command.args(["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]);
    for shown in SHOWN.map(Path::new) {
        if let Ok(target) = std::fs::read_link(shown) {
            command.arg("--symlink").args([&target, shown]);
        } else if shown.exists() {
            command.arg("--ro-bind").args([shown, shown]);
        }
    }
    command.args(["--proc", "/proc", "--dev", "/dev"]);
    command.args(["--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/var/tmp"]);
    command.arg("--bind").arg(&workspace).arg("/workspace");
    command.args(["--chdir", "/workspace", "bash", "-c", "true"]);
    Ok(Some(command))
}
