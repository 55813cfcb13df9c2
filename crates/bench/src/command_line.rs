//! The command line that the benchmarks share.

use std::io::Write as _;
use std::process::ExitCode;

use crate::Result;
use crate::report::{Format, Report};

/// Measures as the command line asks: `[--short] [--json]`. Returns the exit
/// code: 1 when a bar is missed, 2 when something did not work.
pub fn run<P>(short: P, long: P, measure: impl FnOnce(&mut Report, P) -> Result<()>) -> ExitCode {
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
    measure: impl FnOnce(&mut Report, P) -> Result<()>,
) -> Result<Report> {
    let (mut is_short, mut format) = (false, Format::Table);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--short" => is_short = true,
            "--json" => format = Format::Json,
            "--bench" => {}
            other => return Err(format!("{other}: only --short and --json are known").into()),
        }
    }
    let mut report = Report::new(crate::machine::facts());
    let measured = measure(&mut report, if is_short { short } else { long });
    match format {
        Format::Table => report.print_table()?,
        Format::Json => report.print_json()?,
    }
    measured.map(|()| report)
}
