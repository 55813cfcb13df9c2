//! The numbers of the contract for the backend `local`, each measured beside
//! the alternative in the same run.
//!
//! ```text
//! cargo bench -p vestal-sandbox --bench contract -- [--short] [--json]
//! ```
//!
//! Exits with 1 when a bar is missed and with 2 when something did not work.
//! All it makes is below one temporary directory and is removed at the end.

mod commands;
mod crowd;
mod files;
mod machine;
mod memory;
mod options;
mod process;
mod program;
mod report;
mod sample;
mod stage;
mod streaming;
mod workload;

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use crate::options::Options;
use crate::report::{Format, Report};
use crate::stage::Theatre;

/// A failure of the benchmark itself.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

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

fn run(options: &Options) -> Result<Report> {
    let theatre = Theatre::open()?;
    let plan = options.plan;
    let mut report = Report::new(machine::facts());
    report.add(theatre.perform(async |stage| commands::measure(&stage, plan).await)?);
    report.add(theatre.perform_threaded(async |stage| commands::threaded(&stage, plan).await)?);
    report.add(theatre.perform(async |stage| program::measure(&stage, plan).await)?);
    report.add(theatre.perform(async |stage| files::measure(&stage, plan).await)?);
    report.add(theatre.perform(async |stage| memory::measure(&stage).await)?);
    report.add(theatre.perform(async |stage| streaming::measure(&stage, plan).await)?);
    report.add(theatre.perform(async |stage| crowd::measure(&stage).await)?);
    theatre.close()?;
    match options.format {
        Format::Table => report.print_table()?,
        Format::Json => report.print_json()?,
    }
    Ok(report)
}
