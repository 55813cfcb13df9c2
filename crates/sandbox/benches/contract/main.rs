//! The numbers of the contract for each backend, measured beside the
//! alternative in the same run.
//!
//! ```text
//! cargo bench -p vestal-sandbox --bench contract -- [--short] [--only BACKEND] [--json]
//! ```
//!
//! Sandboxes of namespaces are made where this machine can; `bwrap`, which they
//! are held against, has to be installed. Containers are made with the engine that `VESTAL_TEST_DOCKER_HOST` names, and
//! a few with the one of `VESTAL_TEST_PODMAN_HOST`; both have the test images.
//! Without an engine its rows are reported as not run. A machine with an ssh server is made with the program that
//! `VESTAL_TEST_SSH_HOST` names, and pods are those of the cluster that `VESTAL_TEST_KUBERNETES_DIR` names, where the
//! feature `kubernetes` is built in.
//!
//! Exits with 1 when a bar is missed and with 2 when something did not work.
//! All it makes is below temporary directories and in those engines, and is
//! removed at the end.

mod commands;
mod containers;
mod crowd;
mod files;
mod fixture;
mod kubernetes;
mod memory;
mod native;
mod options;
mod process;
mod program;
mod ssh;
mod streaming;
mod workload;

use std::io::Write as _;
use std::process::ExitCode;

use crate::fixture::{BenchBackend, BenchHome, ContractBench};
use crate::options::{Options, Plan};
use vestal_bench::program::BenchProgram;
use vestal_bench::report::{BenchReport, ReportFormat};
use vestal_bench::{machine_facts, program as built};

use vestal_bench::Result;

/// How many sandboxes a crowd of the backend `local` has.
const CROWD: usize = 50;

fn main() -> ExitCode {
    match Options::from_arguments().and_then(|options| run(&options)) {
        Ok(report) if report.missed() == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            // If standard error is closed there is nobody left to tell.
            writeln!(std::io::stderr(), "the benchmark failed: {error}").ok();
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<BenchReport> {
    let mut report = BenchReport::new(machine_facts());
    let measured = measure(&mut report, options);
    // Also what was measured before something did not work.
    match options.format {
        ReportFormat::Table => report.print_table()?,
        ReportFormat::Json => report.print_json()?,
    }
    measured.map(|()| report)
}

fn measure(report: &mut BenchReport, options: &Options) -> Result<()> {
    let plan = options.plan;
    let is_wanted = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    if ["local", "native", "docker"].into_iter().any(is_wanted) {
        let program = built::build();
        if is_wanted("local") {
            local(report, plan, &program)?;
        }
        if is_wanted("native") {
            native::measure(report, plan, &program)?;
        }
        if is_wanted("docker") {
            containers::docker(report, plan, &program)?;
        }
    }
    if is_wanted("podman") {
        containers::podman(report, plan)?;
    }
    if is_wanted("ssh") {
        ssh::measure(report, plan)?;
    }
    if is_wanted("kubernetes") {
        kubernetes::measure(report, plan)?;
    }
    Ok(())
}

fn local(report: &mut BenchReport, plan: Plan, program: &BenchProgram) -> Result<()> {
    let home = BenchHome::open(&BenchBackend::Local)?;
    let file = async |bench: ContractBench| {
        let path = bench.home().join("small.txt");
        files::measure(&bench, plan, &path).await
    };
    report.add(home.measure(async |bench| commands::measure(&bench, plan).await)?);
    report.add(home.measure_threaded(async |bench| commands::threaded(&bench, plan).await)?);
    report.add(home.measure(async |bench| program::measure(&bench, plan, program).await)?);
    report.add(home.measure(file)?);
    report.add(home.measure(async |bench| memory::measure(&bench).await)?);
    report.add(home.measure(async |bench| streaming::measure(&bench, plan).await)?);
    report.add(home.measure(async |bench| crowd::measure(&bench, CROWD, None).await)?);
    home.close()
}
