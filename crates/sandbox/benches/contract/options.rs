//! What the benchmark is asked to do.

use crate::Result;
use crate::report::Format;

/// How often each thing is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Runs that are not counted.
    pub(crate) warm_up: usize,
    /// Commands per row.
    pub(crate) commands: usize,
    /// New processes per row.
    pub(crate) processes: usize,
    /// Operations on files per row.
    pub(crate) files: usize,
    /// Times the output is streamed.
    pub(crate) streams: usize,
}

const SHORT: Plan = Plan { warm_up: 10, commands: 100, processes: 50, files: 200, streams: 1 };
const LONG: Plan = Plan { warm_up: 50, commands: 1500, processes: 500, files: 3000, streams: 5 };

/// The command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) plan: Plan,
    pub(crate) format: Format,
}

impl Options {
    pub(crate) fn from_arguments() -> Result<Self> {
        let mut options = Self { plan: LONG, format: Format::Table };
        for argument in std::env::args().skip(1) {
            match argument.as_str() {
                "--short" => options.plan = SHORT,
                "--json" => options.format = Format::Json,
                // Cargo says this to every benchmark.
                "--bench" => {}
                other => return Err(format!("{other}: only --short and --json are known").into()),
            }
        }
        Ok(options)
    }
}
