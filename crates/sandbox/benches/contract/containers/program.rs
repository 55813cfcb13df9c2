//! The program `vestal` beside the program `docker`, each as a new process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::Api;
use super::rows::{TRUE, container};
use crate::Result;
use crate::fixture::ContractBench;
use crate::options::Plan;
use crate::program::{self, run_pair};
use crate::streaming::{complete, text, through_a_pipe};
use vestal_bench::program::BenchProgram;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;

pub(super) const RUN: &str = program::NAME;
pub(super) const STREAM: &str = "much output through vestal run";

/// Both programs, and the container that the engine's acts on.
pub(super) struct Programs<'a> {
    bench: &'a ContractBench,
    vestal: &'a Path,
    /// The engine's, if there is one.
    docker: Option<PathBuf>,
    container: String,
}

/// `true`.
pub(super) async fn run(
    bench: &ContractBench,
    api: &Api,
    plan: Plan,
    ours: &BenchProgram,
) -> Result<Vec<BenchRow>> {
    let programs = match Programs::find(bench, api, ours).await? {
        Ok(programs) => programs,
        Err(why) => return Ok(vec![BenchRow::not_run(bench.label(RUN), why)]),
    };
    let exec = || match programs.docker(&TRUE) {
        Some(mut docker) => succeed(&mut docker),
        None => Ok(()),
    };
    let pair = run_pair(bench, programs.vestal, plan.containers.processes(), exec).await?;
    let row = match programs.docker {
        Some(_) => pair.row(bench, RUN),
        None => no_docker(BenchRow::times(bench.label(RUN), &pair.ours)),
    };
    Ok(vec![row.bar(Bar::AtMost(Figure::Milliseconds(10.0))).bar(Bar::Faster(12.0))])
}

/// Much output, through a pipe to the process that started the program.
pub(super) async fn stream(
    bench: &ContractBench,
    api: &Api,
    plan: Plan,
    ours: &BenchProgram,
) -> Result<Vec<BenchRow>> {
    let programs = match Programs::find(bench, api, ours).await? {
        Ok(programs) => programs,
        Err(why) => return Ok(vec![BenchRow::not_run(bench.label(STREAM), why)]),
    };
    let size = plan.containers.stream;
    let text = text(size);
    let timed = |process: &mut Command| {
        let start = Instant::now();
        complete(through_a_pipe(process)?, size)?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(start.elapsed())
    };
    let (mut ours, mut others) = (Samples::default(), Samples::default());
    for _ in 0..plan.containers.streams {
        ours.push(timed(&mut program::command(bench, programs.vestal, &text))?);
        if let Some(mut docker) = programs.docker(&["bash", "-c", &text]) {
            others.push(timed(&mut docker)?);
        }
    }
    let row = BenchRow::single(bench.label(STREAM), Figure::rate(size, ours.p50()));
    Ok(vec![match programs.docker {
        Some(_) => row.beside(Figure::rate(size, others.p50())),
        None => no_docker(row),
    }])
}

impl<'a> Programs<'a> {
    /// Returns the programs, or why ours is not there.
    async fn find(
        bench: &'a ContractBench,
        api: &Api,
        ours: &'a BenchProgram,
    ) -> Result<std::result::Result<Self, &'a str>> {
        let vestal = match ours {
            Ok(vestal) => vestal,
            Err(why) => return Ok(Err(why)),
        };
        let container = container(bench, api).await?;
        Ok(Ok(Self { bench, vestal, docker: bench.find_program("docker"), container }))
    }

    /// Returns `docker exec` of a command.
    fn docker(&self, command: &[&str]) -> Option<Command> {
        let mut docker = self.bench.command(self.docker.as_ref()?);
        docker.args(["exec", &*self.container]).args(command);
        Some(docker)
    }
}

fn succeed(process: &mut Command) -> Result<()> {
    let output = process.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("docker exec: {}", String::from_utf8_lossy(&output.stderr)).into())
}

fn no_docker(row: BenchRow) -> BenchRow {
    row.note("there is no program docker to compare it with (Debian: docker.io)")
}
