//! The numbers of the contract for each backend, measured beside the
//! alternative in the same run.
//!
//! ```text
//! cargo bench -p vestal-sandbox --bench contract -- [--short] [--json]
//! ```
//!
//! Sandboxes of namespaces are made where this machine can; `bwrap`, which they
//! are held against, has to be installed. Containers are made with the engine that `VESTAL_TEST_DOCKER_HOST` names, and
//! a few with the one of `VESTAL_TEST_PODMAN_HOST`; both have the test images.
//! Without an engine its rows are reported as not run.
//!
//! Exits with 1 when a bar is missed and with 2 when something did not work.
//! All it makes is below temporary directories and in those engines, and is
//! removed at the end.

mod commands;
mod containers;
mod crowd;
mod files;
mod memory;
mod native;
mod options;
mod process;
mod program;
mod stage;
mod streaming;
mod workload;

use std::io::Write as _;
use std::process::ExitCode;

use crate::options::{Options, Plan};
use crate::stage::{Ground, Stage, Theatre};
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
    let measured = measure(&mut report, options.plan);
    // Also what was measured before something did not work.
    match options.format {
        ReportFormat::Table => report.print_table()?,
        ReportFormat::Json => report.print_json()?,
    }
    measured.map(|()| report)
}

fn measure(report: &mut BenchReport, plan: Plan) -> Result<()> {
    let program = built::build();
    local(report, plan, &program)?;
    native::measure(report, plan, &program)?;
    containers::docker(report, plan, &program)?;
    containers::podman(report, plan)
}

fn local(report: &mut BenchReport, plan: Plan, program: &BenchProgram) -> Result<()> {
    let theatre = Theatre::open(&Ground::Local)?;
    let file = async |stage: Stage| {
        let path = stage.home().join("small.txt");
        files::measure(&stage, plan, &path).await
    };
    report.add(theatre.perform(async |stage| commands::measure(&stage, plan).await)?);
    report.add(theatre.perform_threaded(async |stage| commands::threaded(&stage, plan).await)?);
    report.add(theatre.perform(async |stage| program::measure(&stage, plan, program).await)?);
    report.add(theatre.perform(file)?);
    report.add(theatre.perform(async |stage| memory::measure(&stage).await)?);
    report.add(theatre.perform(async |stage| streaming::measure(&stage, plan).await)?);
    report.add(theatre.perform(async |stage| crowd::measure(&stage, CROWD, None).await)?);
    theatre.close()
}
