//! What it takes to copy a sandbox.

use std::time::Instant;

use vestal_sandbox::{FilesOnRemoval, TaskName, WhileBusy};

use crate::Result;
use crate::fixture::ContractBench;
use crate::options::Plan;
use crate::workload::stateless;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;

pub(super) const NAME: &str = "fork of a sandbox with 10000 small files";

const FILES: u64 = 10_000;

/// Writes them: about a kilobyte each, a hundred to a directory.
const WRITE: &str = "text=$(printf 'some text %.0s' {1..100}); \
    for d in {0..99}; do mkdir $d; for f in {0..99}; do echo \"$d/$f: $text\" > $d/$f; done; done";

/// Rounds that are not counted.
const WARM_UP: usize = 2;

/// Beside a plain copy of the same files.
pub(super) async fn measure(bench: &ContractBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let from: TaskName = "fork-from".parse()?;
    let sandbox = bench.sandbox("fork-from").await?;
    stateless(&sandbox, WRITE).await?;
    let workspace = bench.engine.sandboxes_dir().join(sandbox.key().dir_name()).join("workspace");
    drop(sandbox);
    bench.engine.stop(&from).await?;
    let copy = bench.home().join("plain-copy");
    let (mut ours, mut others) = (Samples::default(), Samples::default());
    for number in 0..WARM_UP + plan.forks {
        let to: TaskName = format!("fork-{number}").parse()?;
        let start = Instant::now();
        let forked = bench.engine.fork(&from, None, &to, WhileBusy::Refuse).await?;
        let our_time = start.elapsed();
        if forked.files < FILES {
            return Err(format!("only {} files were copied", forked.files).into());
        }
        let mut cp = bench.command("cp");
        cp.args(["-a", "--reflink=auto"]).args([&workspace, &copy]);
        let start = Instant::now();
        let status = cp.status()?;
        let other_time = start.elapsed();
        if !status.success() {
            return Err("cp failed".into());
        }
        if number >= WARM_UP {
            ours.push(our_time);
            others.push(other_time);
        }
        bench.engine.remove(&to, FilesOnRemoval::Remove).await?;
        std::fs::remove_dir_all(&copy)?;
    }
    let row = BenchRow::times(bench.label(NAME), &ours);
    Ok(vec![row.beside(Figure::time(others.p50())).bar(Bar::Times(2.0))])
}
