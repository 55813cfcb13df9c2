//! What the dashboard costs its server, and how long a person waits for it.
//!
//! ```text
//! cargo bench -p vestal-dashboard --bench dashboard -- [--short] [--json]
//! ```
//!
//! The program runs as it is shipped, in a home with as much in it as a busy year leaves behind; the
//! client speaks HTTP over loopback, as a browser on the same machine does.
//!
//! Exits with 1 when a bar is missed and with 2 when something did not work.

mod client;
mod fixture;
mod lists;
mod live;

use std::process::ExitCode;
use std::time::Duration;

use vestal_bench::Result;
use vestal_bench::report::BenchReport;

use crate::fixture::DashboardBench;

/// How much there is, and how often each thing is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) tasks: usize,
    pub(crate) conversations: usize,
    pub(crate) log_bytes: usize,
    pub(crate) sandboxes: usize,
    pub(crate) requests: usize,
    pub(crate) events: usize,
    pub(crate) keys: usize,
    /// How long a server with open pages is watched while nothing happens.
    pub(crate) idle: Duration,
}

const SHORT: Plan = Plan {
    tasks: 10_000,
    conversations: 10_000,
    log_bytes: 100_000_000,
    sandboxes: 200,
    requests: 30,
    events: 20,
    keys: 100,
    idle: Duration::from_secs(10),
};
const LONG: Plan =
    Plan { requests: 200, events: 100, keys: 500, idle: Duration::from_mins(1), ..SHORT };

fn main() -> ExitCode {
    vestal_bench::run(SHORT, LONG, measure)
}

fn measure(report: &mut BenchReport, plan: Plan) -> Result<()> {
    let program = vestal_bench::program::build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let bench = DashboardBench::new(program, plan).await?;
        let measured = async {
            report.add(lists::measure(&bench, plan).await?);
            report.add(live::measure(&bench, plan).await?);
            Ok(())
        };
        let measured: Result<()> = measured.await;
        // Whatever became of it, the guests do not outlive it.
        bench.close().await?;
        measured
    })
}
