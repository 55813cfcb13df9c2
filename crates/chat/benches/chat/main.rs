//! What a chat costs the person who sits at it.
//!
//! ```text
//! cargo bench -p vestal-chat --bench chat -- [--short] [--json]
//! ```
//!
//! The program runs on a real terminal device with an emulator at the other
//! end; the model is scripted and answers over real HTTP. The figures of the
//! alternative were recorded on a machine like this one, since it is not
//! installed beside us; what a key takes is compared with `cat`, to which the
//! kernel itself echoes.
//!
//! Exits with 1 when a bar is missed and with 2 when something did not work.

mod echo;
mod fixture;
mod memory;
mod start;

use std::process::ExitCode;

use vestal_bench::Result;
use vestal_bench::report::BenchReport;

use crate::fixture::ChatFixture;

/// How often each thing is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) starts: usize,
    pub(crate) keys: usize,
    /// Turns of the long conversation.
    pub(crate) turns: usize,
}

const SHORT: Plan = Plan { starts: 15, keys: 100, turns: 120 };
const LONG: Plan = Plan { starts: 100, keys: 1_000, turns: 1_000 };

fn main() -> ExitCode {
    vestal_bench::run(SHORT, LONG, measure)
}

fn measure(report: &mut BenchReport, plan: Plan) -> Result<()> {
    let program = vestal_bench::program::build()?;
    let fixture = ChatFixture::new(program);
    report.add(start::measure(&fixture, plan)?);
    report.add(echo::measure(&fixture, plan)?);
    report.add(memory::measure(&fixture, plan)?);
    fixture.close()
}
