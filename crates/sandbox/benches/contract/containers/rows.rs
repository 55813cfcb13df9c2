//! The rows, one function for each group of them.

use std::path::Path;

use super::{Api, lives, program};
use crate::Result;
use crate::commands::{self, SESSION, STATELESS, TASK, session_pair, stateless_pair};
use crate::files;
use crate::fixture::ContractBench;
use crate::memory;
use crate::options::Plan;
use crate::streaming::{self, GUEST_GROWTH, HOST_GROWTH, THROUGH_A_JOB};
use vestal_bench::report::{Bar, BenchRow, Figure};

const OVER_EXEC: &str = "true, stateless, through the engine";

/// What is measured with Docker.
pub(super) const DOCKER: [&str; 14] = [
    STATELESS,
    SESSION,
    program::RUN,
    files::NAMES[0],
    files::NAMES[1],
    files::NAMES[2],
    memory::NAME,
    THROUGH_A_JOB,
    HOST_GROWTH,
    GUEST_GROWTH,
    program::STREAM,
    OVER_EXEC,
    lives::NEW,
    lives::STOPPED,
];

/// What is measured with Podman.
pub(super) const PODMAN: [&str; 2] = [STATELESS, SESSION];

/// The sandbox whose guest is reached through the engine.
const TASK_OVER_EXEC: &str = "bench-over-exec";

/// What runs inside the container, by the engine's own means: less than ours,
/// which has a shell read the text.
pub(super) const TRUE: [&str; 1] = ["true"];

/// Where the small file is.
const FILE: &str = "/workspace/small.txt";

/// `true` beside the same by the engine's socket.
pub(super) async fn commands(
    bench: &ContractBench,
    api: &Api,
    plan: Plan,
) -> Result<Vec<BenchRow>> {
    let (clean, session) = pairs(bench, api, plan).await?;
    let most = |milliseconds| Bar::AtMost(Figure::Milliseconds(milliseconds));
    Ok(vec![
        clean.row(bench, STATELESS).bar(most(2.5)).bar(Bar::Faster(25.0)),
        session.row(bench, SESSION).bar(most(4.0)).bar(Bar::Faster(18.0)),
    ])
}

/// The same where there is no bar.
pub(super) async fn reported(
    bench: &ContractBench,
    api: &Api,
    plan: Plan,
) -> Result<Vec<BenchRow>> {
    let (clean, session) = pairs(bench, api, plan).await?;
    Ok(vec![clean.row(bench, STATELESS), session.row(bench, SESSION)])
}

async fn pairs(
    bench: &ContractBench,
    api: &Api,
    plan: Plan,
) -> Result<(commands::Pair, commands::Pair)> {
    let container = container(bench, api).await?;
    let exec = || api.exec(&container, &TRUE).map(drop);
    let rounds = plan.containers.commands();
    let clean = stateless_pair(bench, TASK, rounds, exec).await?;
    let session = session_pair(bench, TASK, rounds, exec).await?;
    Ok((clean, session))
}

/// Operations on a small file.
pub(super) async fn files(bench: &ContractBench, plan: Plan) -> Result<Vec<BenchRow>> {
    files::measure(bench, plan, Path::new(FILE)).await
}

/// What the guest weighs.
pub(super) async fn memory(bench: &ContractBench, api: &Api) -> Result<Vec<BenchRow>> {
    Ok(vec![memory::idle(bench, guest(bench, api).await?)?])
}

/// Much output beside the same by the engine's socket.
pub(super) async fn streaming(
    bench: &ContractBench,
    api: &Api,
    plan: Plan,
) -> Result<Vec<BenchRow>> {
    let container = container(bench, api).await?;
    let guest = guest(bench, api).await?;
    let exec = |text: &str| api.exec(&container, &["bash", "-c", text]);
    let streams = (plan.containers.streams, plan.containers.stream);
    streaming::rows(bench, guest, streams, exec, Some(Bar::Faster(3.0))).await
}

/// `true` where host and container share no socket.
pub(super) async fn over_exec(bench: &ContractBench, plan: Plan) -> Result<Vec<BenchRow>> {
    let bench = bench.with("terminal.docker_transport=exec")?;
    let nothing = || Ok(());
    let pair = stateless_pair(&bench, TASK_OVER_EXEC, plan.containers.commands(), nothing).await?;
    Ok(vec![BenchRow::times(bench.label(OVER_EXEC), &pair.ours)])
}

/// Returns the container of the sandbox that most rows use.
pub(super) async fn container(bench: &ContractBench, api: &Api) -> Result<String> {
    let sandbox = bench.sandbox(TASK).await?;
    api.container(&sandbox.instance().await)
}

/// Returns the process id of the guest, which is its container's first process.
async fn guest(bench: &ContractBench, api: &Api) -> Result<u32> {
    let pid = api.first_process(&container(bench, api).await?)?;
    let line = std::fs::read(format!("/proc/{pid}/cmdline"))?;
    if line.split(|byte| *byte == 0).next().is_some_and(|word| word.ends_with(b"/guest")) {
        return Ok(pid);
    }
    Err(format!("process {pid} is not a guest: {}", String::from_utf8_lossy(&line)).into())
}
