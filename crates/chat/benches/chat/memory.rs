//! What a chat holds after a long conversation.

use vestal_bench::Result;
use vestal_bench::program::resident;
use vestal_bench::report::{Bar, BenchRow, Figure};

use crate::Plan;
use crate::fixture::{ChatFixture, TEST_TIMEOUT, WORK};

const IDLE: &str = "memory of a chat that has just begun";
const LONG: &str = "memory of a chat after a long conversation";

/// What the alternative's terminal interface held idle, recorded.
const THEIRS: f64 = 170.0;

pub(crate) fn measure(fixture: &ChatFixture, plan: Plan) -> Result<Vec<BenchRow>> {
    let mut chat = fixture.ready_chat()?;
    let idle = resident(chat.id())?;
    for turn in 1..=plan.turns {
        let words = format!("{WORK}, turn {turn}.");
        chat.type_text(&words)?;
        chat.key("\r")?;
        let asked = format!("› {words}");
        chat.wait_for(
            |seen| {
                let screen = seen.screen();
                let reply = screen.iter().rposition(|row| row.starts_with(&asked));
                let done = screen.iter().rposition(|row| row.trim_end() == "done");
                let prompt = screen.iter().rposition(|row| row.trim_end() == "›");
                // While a turn runs, the status ends with its time.
                let status = screen.iter().rfind(|row| !row.trim().is_empty());
                let is_over = status.is_some_and(|row| !row.trim_end().ends_with('s'));
                reply.is_some() && done > reply && prompt > done && is_over
            },
            TEST_TIMEOUT,
        );
    }
    let long = resident(chat.id())?;
    ChatFixture::leave(chat)?;
    let theirs = Figure::Mebibytes(THEIRS);
    Ok(vec![
        BenchRow::single(IDLE, Figure::size(idle)).beside(theirs),
        BenchRow::single(LONG, Figure::size(long))
            .beside(theirs)
            .bar(Bar::AtMost(Figure::Mebibytes(40.0)))
            .note(format!("{} turns, each with a tool call", plan.turns)),
    ])
}
