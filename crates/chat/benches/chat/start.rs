//! From the command to the prompt.

use std::time::{Duration, Instant};

use vestal_bench::Result;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_bench::sample::Samples;

use crate::Plan;
use crate::fixture::{ChatFixture, wait_for_prompt};

const START: &str = "vestal chat: start to prompt";

/// What the alternative took, recorded.
const THEIRS: Duration = Duration::from_millis(4_100);

/// Starts that are not counted.
const WARM_UP: usize = 3;

pub(crate) fn measure(fixture: &ChatFixture, plan: Plan) -> Result<Vec<BenchRow>> {
    let mut samples = Samples::default();
    for round in 0..WARM_UP + plan.starts {
        let start = Instant::now();
        let chat = fixture.chat()?;
        wait_for_prompt(&chat);
        let took = start.elapsed();
        ChatFixture::leave(chat)?;
        if round >= WARM_UP {
            samples.push(took);
        }
    }
    Ok(vec![
        BenchRow::times(START, &samples)
            .beside(Figure::time(THEIRS))
            .bar(Bar::AtMost(Figure::Milliseconds(60.0)))
            .note("the alternative's figure was recorded"),
    ])
}
