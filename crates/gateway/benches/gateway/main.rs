//! Measures a gateway: start and stop, memory and processor time while it idles, what it adds to an
//! answer of the model, and the memory of many profiles.
//!
//! ```text
//! cargo bench -p vestal-gateway --bench gateway -- [--short] [--json]
//! ```
//!
//! The program runs as it is shipped, with its API over real HTTP; the model is scripted and answers
//! over real HTTP, too. What a request takes is compared with asking that model directly in the same
//! run. The alternative is not installed here: its figures were recorded on a machine like this one.
//!
//! Exits with 1 when a bar is missed and with 2 when something did not work.

mod answers;
mod fixture;
mod life;
mod profiles;

use std::process::ExitCode;
use std::time::Duration;

use vestal_bench::Result;
use vestal_bench::report::BenchReport;

use crate::fixture::GatewayBench;

/// How often each measurement is repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) starts: usize,
    pub(crate) stops: usize,
    /// How long an idle gateway is watched.
    pub(crate) idle: Duration,
    pub(crate) requests: usize,
    /// Conversations that stream at once.
    pub(crate) streams: usize,
    pub(crate) profiles: usize,
}

const SHORT: Plan = Plan {
    starts: 10,
    stops: 5,
    idle: Duration::from_secs(10),
    requests: 60,
    streams: 200,
    profiles: 20,
};
const LONG: Plan =
    Plan { starts: 50, stops: 20, idle: Duration::from_mins(1), requests: 500, ..SHORT };

fn main() -> ExitCode {
    vestal_bench::run(SHORT, LONG, measure)
}

fn measure(report: &mut BenchReport, plan: Plan) -> Result<()> {
    let program = vestal_bench::program::build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let bench = GatewayBench::new(program)?;
        report.add(life::measure(&bench, plan).await?);
        report.add(answers::measure(&bench, plan).await?);
        report.add(profiles::measure(&bench, plan)?);
        bench.close()
    })
}
