//! The program as a new process.

use std::time::{Duration, Instant};

use vestal_bench::Result;
use vestal_bench::program::BenchProgram;
use vestal_bench::program::resident;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;

use crate::Plan;
use crate::fixture::{TurnFixture, WAIT, WORK};

const FIRST_REQUEST: &str = "vestal chat -q: start to the model's first request";
const WHOLE: &str = "vestal chat -q with one terminal call, whole";
const MEMORY: &str = "memory of a process that waits for its model";

/// What the alternative took, recorded: seconds to its first request, and
/// mebibytes of an idle process.
const THEIR_FIRST_REQUEST: Duration = Duration::from_millis(5_200);
const THEIR_TURN: Duration = Duration::from_millis(5_700);
const THEIR_MEMORY: f64 = 65.0;

pub(crate) fn measure(
    fixture: &TurnFixture,
    plan: Plan,
    program: &BenchProgram,
) -> Result<Vec<BenchRow>> {
    let program = match program {
        Ok(program) => program,
        Err(why) => {
            let not_run = |what: &str| BenchRow::not_run(what, why);
            return Ok([FIRST_REQUEST, WHOLE, MEMORY].map(not_run).into());
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut first, mut whole) = (Samples::default(), Samples::default());
    for round in 0..plan.warm_up + plan.processes {
        let asked = fixture.model.requests().len();
        let start = Instant::now();
        let child = fixture
            .command(program, WORK)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()?;
        let waiting = fixture.model.wait_for_requests(asked + 1);
        let arrived = runtime.block_on(tokio_timeout(waiting));
        let (until_asked, output) = (start.elapsed(), child.wait_with_output()?);
        let all = start.elapsed();
        if !output.status.success() || !arrived || output.stdout != b"done\n" {
            return Err(format!("vestal chat: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        if round >= plan.warm_up {
            first.push(until_asked);
            whole.push(all);
        }
    }
    Ok(vec![
        BenchRow::times(FIRST_REQUEST, &first)
            .beside(Figure::time(THEIR_FIRST_REQUEST))
            .bar(Bar::AtMost(Figure::Milliseconds(50.0)))
            .note("the alternative's figures were recorded"),
        BenchRow::times(WHOLE, &whole).beside(Figure::time(THEIR_TURN)),
        BenchRow::single(MEMORY, idle_memory(fixture, program, &runtime)?)
            .beside(Figure::Mebibytes(THEIR_MEMORY))
            .bar(Bar::AtMost(Figure::Mebibytes(30.0))),
    ])
}

fn idle_memory(
    fixture: &TurnFixture,
    program: &std::path::Path,
    runtime: &tokio::runtime::Runtime,
) -> Result<Figure> {
    let asked = fixture.model.requests().len();
    let mut child = fixture.command(program, WAIT).stdout(std::process::Stdio::null()).spawn()?;
    let arrived = runtime.block_on(tokio_timeout(fixture.model.wait_for_requests(asked + 1)));
    let size = resident(child.id());
    child.kill()?;
    child.wait()?;
    if !arrived {
        return Err("vestal chat never asked its model".into());
    }
    Ok(Figure::size(size?))
}

/// Waits, but not for ever.
async fn tokio_timeout<T>(waiting: impl Future<Output = T>) -> bool {
    tokio::time::timeout(Duration::from_secs(30), waiting).await.is_ok()
}
