//! A tool call, while it runs and afterwards.

use std::time::Duration;

use vestal_tui::{Line, Span, diff, style};

use crate::tails::Tail;
use crate::text;

/// Lines of output that are shown of a call that has ended.
const TAIL: usize = 5;

/// Lines of a change that are shown.
const DIFF: usize = 40;

/// Lines of a failure's reason that are shown.
const REASON: usize = 6;

/// What turns while something runs.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Done<'a> {
    pub(crate) name: &'a str,
    pub(crate) summary: &'a str,
    pub(crate) is_error: bool,
    pub(crate) took: Duration,
    /// What it printed.
    pub(crate) tail: &'a Tail,
    /// What went wrong, if that is known and was not printed.
    pub(crate) reason: Option<&'a str>,
    /// How its command ended, if that is known.
    pub(crate) exit_code: Option<i64>,
    /// What it changed in files, as diffs.
    pub(crate) changes: &'a [String],
}

/// Shows a call that runs, in a line: what it is, how long it has run, and what
/// it printed last.
pub(crate) fn running(
    name: &str,
    summary: &str,
    elapsed: Duration,
    last: Option<&str>,
    frame: usize,
    columns: usize,
) -> Line {
    let mut line = Line::from_spans(vec![Span::new(SPINNER[frame % SPINNER.len()], style::CYAN)]);
    if !name.is_empty() {
        line.push(Span::plain(" "));
        line.push(Span::new(name, style::BOLD));
    }
    let elapsed = format!(" ({})", text::span(elapsed));
    // What it is about gives way to how long it has run and what it prints.
    let room = columns.saturating_sub(line.width() + elapsed.len() + 1);
    let room = if last.is_some() { room.min(columns * 2 / 5) } else { room };
    if !summary.is_empty() && room > 3 {
        line.push(Span::plain(" "));
        line.push(Span::plain(Line::plain(summary).cut(room).text()));
    }
    line.push(Span::new(elapsed, style::DIM));
    if let Some(last) = last {
        line.push(Span::new(format!(" │ {}", last.trim_start()), style::DIM));
    }
    line.cut(columns)
}

/// Shows a call that has ended: what it was, how it ended, the end of its
/// output, and what it changed.
pub(crate) fn ended(done: &Done<'_>) -> Vec<Line> {
    let (mark, colour) = if done.is_error { ("✗", style::RED) } else { ("✓", style::GREEN) };
    let mut head = Line::from_spans(vec![
        Span::new(mark, colour),
        Span::plain(" "),
        Span::new(done.name, style::BOLD),
    ]);
    if !done.summary.is_empty() {
        head.push(Span::plain(format!(" {}", done.summary)));
    }
    let exit = done.exit_code.filter(|code| *code != 0);
    let exit = exit.map(|code| format!("exit {code}, ")).unwrap_or_default();
    head.push(Span::new(format!(" ({exit}{})", text::took(done.took)), style::DIM));
    let mut lines = vec![head];
    let hidden = done.tail.count().saturating_sub(TAIL);
    if hidden > 0 {
        let more = if done.tail.is_cut() { "at least " } else { "" };
        let more = format!("  … {more}{} before (Ctrl-O shows them)", text::count(hidden, "line"));
        lines.push(Line::styled(more, style::DIM));
    }
    let printed = done.tail.last(TAIL);
    lines.extend(printed.iter().map(|line| Line::styled(format!("  {line}"), style::DIM)));
    if let Some(reason) = done.reason {
        let reason = reason.lines().filter(|line| !line.trim().is_empty()).take(REASON);
        lines.extend(reason.map(|line| Line::styled(format!("  {line}"), style::DIM)));
    }
    for change in done.changes {
        lines.extend(
            diff::render(change, DIFF).into_iter().map(|line| line.prefixed(Span::plain("  "))),
        );
    }
    lines
}
