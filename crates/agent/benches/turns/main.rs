//! What a turn costs beside the model's own time.
//!
//! ```text
//! cargo bench -p vestal-agent --bench turns -- [--short] [--json]
//! ```
//!
//! The model is scripted and answers at once over real HTTP; the store is the
//! one that is shipped, with the durability it is shipped with: every word
//! survives a SIGKILL. The figures of the alternative were recorded on a
//! machine like this one, since it is not installed beside us.
//!
//! Exits with 1 when a bar is missed and with 2 when something did not work.

mod fixture;
mod program;
mod turn;

use std::process::ExitCode;

use vestal_bench::Result;
use vestal_bench::report::BenchReport;

use crate::fixture::TurnFixture;

/// How often each thing is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) warm_up: usize,
    pub(crate) turns: usize,
    pub(crate) processes: usize,
    pub(crate) conversations: usize,
    pub(crate) turns_each: usize,
}

const SHORT: Plan =
    Plan { warm_up: 5, turns: 60, processes: 15, conversations: 100, turns_each: 5 };
const LONG: Plan =
    Plan { warm_up: 20, turns: 500, processes: 100, conversations: 100, turns_each: 20 };

fn main() -> ExitCode {
    vestal_bench::run(SHORT, LONG, measure)
}

fn measure(report: &mut BenchReport, plan: Plan) -> Result<()> {
    let program = vestal_bench::program::build();
    let fixture = TurnFixture::new();
    report.add(program::measure(&fixture, plan, &program)?);
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    report.add(one.block_on(turn::measure(&fixture, plan))?);
    let many = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    report.add(many.block_on(turn::measure_crowd(&fixture, plan))?);
    fixture.close()
}
