//! The command line that the benchmarks share.

use std::fs;
use std::io::Write as _;
use std::process::ExitCode;

use crate::Result;
use crate::report::{BenchReport, ReportFormat};

/// Measures as the command line asks: `[--short] [--json]`. Returns the exit
/// code: 1 when a bar is missed, 2 when something did not work.
pub fn run<P>(
    short: P,
    long: P,
    measure: impl FnOnce(&mut BenchReport, P) -> Result<()>,
) -> ExitCode {
    match measured(short, long, measure) {
        Ok(report) if report.missed() == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            // If standard error is closed there is nobody left to tell.
            writeln!(std::io::stderr(), "the benchmark failed: {error}").ok();
            ExitCode::from(2)
        }
    }
}

fn measured<P>(
    short: P,
    long: P,
    measure: impl FnOnce(&mut BenchReport, P) -> Result<()>,
) -> Result<BenchReport> {
    let (mut is_short, mut format) = (false, ReportFormat::Table);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--short" => is_short = true,
            "--json" => format = ReportFormat::Json,
            "--bench" => {}
            other => return Err(format!("{other}: only --short and --json are known").into()),
        }
    }
    let mut report = BenchReport::new(machine_facts());
    let measured = measure(&mut report, if is_short { short } else { long });
    match format {
        ReportFormat::Table => report.print_table()?,
        ReportFormat::Json => report.print_json()?,
    }
    measured.map(|()| report)
}

/// Returns facts about this machine, for people who compare numbers.
pub fn machine_facts() -> Vec<(&'static str, String)> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or_else(|| "unknown".to_owned(), |(_, model)| model.to_owned());
    let load: Vec<_> = read("/proc/loadavg").split(' ').take(3).map(str::to_owned).collect();
    vec![
        ("cores", format!("{cores} × {model}")),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("load", load.join(" ")),
    ]
}
