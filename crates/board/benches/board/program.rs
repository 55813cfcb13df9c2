//! The program as a new process.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use vestal_bench::Result;
use vestal_bench::program::BenchProgram;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;

use crate::Scale;
use crate::fixture::BoardFixture;

const CREATE: &str = "create: a new process each (vestal kanban create)";
const LIST: &str = "vestal kanban list, first page of 50,000 tasks";

/// What the alternative took, recorded.
const THEIR_CREATE: Duration = Duration::from_millis(390);
const THEIR_LIST: Duration = Duration::from_secs(3);

pub(crate) fn create(scale: Scale, program: &BenchProgram) -> Result<Vec<BenchRow>> {
    let program = match program {
        Ok(program) => program,
        Err(why) => return Ok(vec![BenchRow::not_run(CREATE, why)]),
    };
    let fixture = BoardFixture::new()?;
    let arguments = ["create", "Write a report", "--assignee", "default"];
    let samples = repeat(&fixture, program, scale, &arguments, "t_")?;
    Ok(vec![
        BenchRow::times(CREATE, &samples)
            .beside(Figure::time(THEIR_CREATE))
            .bar(Bar::AtMost(Figure::Milliseconds(15.0)))
            .note("the alternative's figure was recorded"),
    ])
}

pub(crate) fn list(
    fixture: &BoardFixture,
    scale: Scale,
    program: &BenchProgram,
) -> Result<Vec<BenchRow>> {
    let program = match program {
        Ok(program) => program,
        Err(why) => return Ok(vec![BenchRow::not_run(LIST, why)]),
    };
    let samples = repeat(fixture, program, scale, &["list"], "t_")?;
    Ok(vec![
        BenchRow::times(LIST, &samples)
            .beside(Figure::time(THEIR_LIST))
            .bar(Bar::AtMost(Figure::Milliseconds(30.0)))
            .note("the alternative's figure was recorded"),
    ])
}

fn repeat(
    fixture: &BoardFixture,
    program: &Path,
    scale: Scale,
    arguments: &[&str],
    expected: &str,
) -> Result<Samples> {
    let mut samples = Samples::default();
    for round in 0..scale.processes + 3 {
        let mut command = fixture.command(program, arguments);
        let begun = Instant::now();
        let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
        let time = begun.elapsed();
        let printed = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() || !printed.contains(expected) {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("vestal kanban {}: {printed}{why}", arguments.join(" ")).into());
        }
        if round >= 3 {
            samples.push(time);
        }
    }
    Ok(samples)
}
