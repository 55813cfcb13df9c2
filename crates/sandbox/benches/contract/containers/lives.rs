//! What it takes until a sandbox that does not run has run its first command.

use std::time::Instant;

use vestal_sandbox::{FilesOnRemoval, TaskName};

use crate::Result;
use crate::fixture::ContractBench;
use crate::options::Plan;
use crate::workload::stateless;
use vestal_bench::report::BenchRow;
use vestal_bench::sample::Samples;

pub(super) const NEW: &str = "new sandbox, first command done";
pub(super) const STOPPED: &str = "stopped sandbox, first command done";

pub(super) async fn measure(bench: &ContractBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let (mut new, mut stopped) = (Samples::default(), Samples::default());
    for number in 0..plan.containers.lives {
        let name = format!("life-{number}");
        let task: TaskName = name.parse()?;
        first_command(bench, &name, &mut new).await?;
        if !bench.engine.stop(&task).await? {
            return Err("a sandbox that was to be stopped did not run".into());
        }
        first_command(bench, &name, &mut stopped).await?;
        bench.engine.remove(&task, FilesOnRemoval::Remove).await?;
    }
    Ok(vec![
        BenchRow::times(bench.label(NEW), &new),
        BenchRow::times(bench.label(STOPPED), &stopped),
    ])
}

async fn first_command(bench: &ContractBench, task: &str, samples: &mut Samples) -> Result<()> {
    let start = Instant::now();
    let sandbox = bench.sandbox(task).await?;
    stateless(&sandbox, "true").await?;
    samples.push(start.elapsed());
    Ok(())
}
