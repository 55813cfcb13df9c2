//! What the transcript and the live area are made of: functions from values to
//! lines, without state and without effect.

mod notice;
mod question;
mod todo;
mod tool;
mod user;

pub(crate) use notice::{aside, note, trouble, warning};
pub(crate) use question::{Frame, Shown, action, approval, choice, clarification};
pub(crate) use todo::{todo_mark, todos};
pub(crate) use tool::{Done, ended, running};
pub(crate) use user::{queued, user};

use vestal_tui::Line;

/// Widest prose, however wide the terminal is: longer lines are hard to read.
const PROSE: usize = 100;

/// Returns how wide prose is on a terminal of so many columns.
pub(crate) fn prose_width(columns: u16) -> usize {
    usize::from(columns).clamp(1, PROSE)
}

/// Wraps text, which may have several lines, one below the other.
pub(crate) fn wrapped(
    text: &str,
    width: usize,
    hanging: &str,
    line: impl Fn(usize, &str) -> Line,
) -> Vec<Line> {
    text.lines()
        .enumerate()
        .flat_map(|(number, text)| line(number, text).wrap(width, hanging))
        .collect()
}
