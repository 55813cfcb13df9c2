//! What a board costs, and whether it loses anything.
//!
//! ```text
//! cargo bench -p vestal-board --bench board -- [--short] [--json]
//! ```
//!
//! Every commit is on the disk before it is acknowledged, as it is shipped
//! (`kanban.durability: full`). The figures of the alternative were recorded on
//! a machine like this one, since it is not installed beside us.
//!
//! Exits with 1 when a bar is missed and with 2 when something did not work.

mod chain;
mod create;
mod crowd;
mod fixture;
mod plan;
mod program;

use std::io::Write as _;
use std::process::ExitCode;

use vestal_bench::Result;
use vestal_bench::program::BenchProgram;
use vestal_bench::report::BenchReport;

use crate::fixture::BoardFixture;

/// How often each thing is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Times that eight processes are let loose on a board and killed.
    pub(crate) crowds: usize,
    /// Tasks that are made one by one.
    pub(crate) creates: usize,
    /// New processes of each kind.
    pub(crate) processes: usize,
    /// Plans of each board.
    pub(crate) plans: usize,
    /// Tasks that are completed.
    pub(crate) completions: usize,
    /// Chains of a parent and its child.
    pub(crate) chains: usize,
    /// How many ready tasks the boards have that plans are made of.
    pub(crate) boards: &'static [usize],
}

const SHORT: Scale = Scale {
    crowds: 1,
    creates: 400,
    processes: 20,
    plans: 40,
    completions: 400,
    chains: 5,
    boards: &[1_000, 10_000, 50_000],
};
const LONG: Scale = Scale {
    crowds: 5,
    creates: 4_000,
    processes: 100,
    plans: 200,
    completions: 4_000,
    chains: 20,
    boards: &[1_000, 10_000, 50_000, 1_000_000],
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // One of the eight processes: this program, started by itself.
    if let [word, file, count] = arguments.as_slice()
        && word == crowd::WORD
    {
        return match crowd::create(file, count) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                // If standard error is closed there is nobody left to tell.
                writeln!(std::io::stderr(), "the crowd failed: {error}").ok();
                ExitCode::from(2)
            }
        };
    }
    vestal_bench::run(SHORT, LONG, measure)
}

fn measure(report: &mut BenchReport, scale: Scale) -> Result<()> {
    report.fact("durability", "full: a commit survives a loss of power".to_owned());
    let program: BenchProgram = vestal_bench::program::build();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    report.add(crowd::measure(scale)?);
    report.add(runtime.block_on(create::measure(scale))?);
    report.add(program::create(scale, &program)?);

    let fixture = BoardFixture::new()?;
    let board = runtime.block_on(fixture.open())?;
    let mut imported = create::Import::default();
    for &size in scale.boards {
        runtime.block_on(imported.grow(&board, size))?;
        report.add(runtime.block_on(plan::measure(&board, scale, size))?);
        if size == fixture::LARGE {
            report.add(program::list(&fixture, scale, &program)?);
            report.add(runtime.block_on(plan::measure_completions(&board, scale))?);
        }
    }
    report.add(imported.rows()?);
    runtime.block_on(board.close())?;
    drop(fixture);
    report.add(runtime.block_on(chain::measure(scale, &program))?);
    Ok(())
}
