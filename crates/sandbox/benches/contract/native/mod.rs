//! The rows of the backend `native`, beside a shell without a sandbox, another
//! way to make one, and another way to copy one.

mod fork;
mod lives;
mod weight;

use std::path::Path;

use vestal_sandbox::Sandbox;
use vestal_sandbox::backend::Availability;

use crate::Result;
use crate::commands::{self, SESSION, STATELESS, TASK};
use crate::fixture::{BenchBackend, BenchHome, ContractBench};
use crate::options::Plan;
use crate::streaming::{self, GUEST_GROWTH, HOST_GROWTH, THROUGH_A_JOB};
use crate::{crowd, files, memory, program};
use vestal_bench::program::BenchProgram;
use vestal_bench::report::{Bar, BenchReport, BenchRow};

/// How many sandboxes live at once.
const CROWD: usize = 200;

/// Where the small file is.
const FILE: &str = "/workspace/small.txt";

/// Measures everything, if sandboxes can be made of namespaces here.
pub(crate) fn measure(report: &mut BenchReport, plan: Plan, ours: &BenchProgram) -> Result<()> {
    let home = BenchHome::open(&BenchBackend::Native)?;
    if let Some(why) = home.measure(async |bench| Ok(missing(&bench).await))? {
        let row = |what: &String| BenchRow::not_run(format!("native: {what}"), &*why);
        report.add(names().iter().map(row).collect());
        return home.close();
    }
    report.add(home.measure(async |bench| commands::measure(&bench, plan).await)?);
    report.add(home.measure(async |bench| program::measure(&bench, plan, ours).await)?);
    report.add(home.measure(async |bench| files::measure(&bench, plan, Path::new(FILE)).await)?);
    report.add(home.measure(async |bench| guest_memory(&bench).await)?);
    report.add(home.measure(async |bench| stream(&bench, plan).await)?);
    report.add(home.measure(async |bench| lives::measure(&bench, plan).await)?);
    report.add(home.measure(async |bench| fork::measure(&bench, plan).await)?);
    report.add(home.measure(async |bench| at_once(&bench).await)?);
    home.close()
}

/// Returns what is measured.
fn names() -> Vec<String> {
    let fixed = [
        STATELESS,
        SESSION,
        program::NAME,
        files::NAMES[0],
        files::NAMES[1],
        files::NAMES[2],
        memory::NAME,
        THROUGH_A_JOB,
        HOST_GROWTH,
        GUEST_GROWTH,
        lives::NEW,
        lives::STOPPED,
        fork::NAME,
    ];
    let mut names: Vec<_> = fixed.map(str::to_owned).into();
    names.extend(crowd::names(CROWD));
    names.push(weight::name(CROWD));
    names
}

/// Returns why there are no such sandboxes here.
async fn missing(bench: &ContractBench) -> Option<String> {
    let backends = bench.engine.backends().await;
    match backends.into_iter().find(|(name, _)| *name == "native") {
        Some((_, Availability::Works { .. })) => None,
        Some((_, Availability::Missing { reason, .. })) => Some(reason),
        Some((_, Availability::Misconfigured { problem, .. })) => Some(problem),
        None => Some("there is no such backend".to_owned()),
    }
}

async fn guest_memory(bench: &ContractBench) -> Result<Vec<BenchRow>> {
    let sandbox = bench.sandbox(TASK).await?;
    Ok(vec![memory::idle(bench, first_process(bench, &sandbox).await?)?])
}

/// Much output beside a plain pipe.
async fn stream(bench: &ContractBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let sandbox = bench.sandbox(TASK).await?;
    let guest = first_process(bench, &sandbox).await?;
    let other = |text: &str| streaming::through_a_pipe(&mut bench.bash_command(text));
    streaming::rows(bench, guest, (plan.streams, streaming::SIZE), other, None).await
}

/// Many sandboxes, what they take and what they weigh.
async fn at_once(bench: &ContractBench) -> Result<Vec<BenchRow>> {
    let before = weight::Host::now()?;
    let mut rows = crowd::measure(bench, CROWD, Some(Bar::Times(1.25))).await?;
    rows.push(weight::measure(bench, CROWD, &before).await?);
    Ok(rows)
}

/// Returns the first process of a sandbox, as this machine counts processes.
async fn first_process(bench: &ContractBench, sandbox: &Sandbox) -> Result<u32> {
    let instances = bench.engine.sandboxes_dir().join(sandbox.key().dir_name()).join("instances");
    let record = std::fs::read(instances.join(sandbox.instance().await).join("init.json"))?;
    let record: serde_json::Value = serde_json::from_slice(&record)?;
    let pid = record["pid"].as_u64().ok_or("the sandbox has no first process")?;
    Ok(u32::try_from(pid)?)
}
