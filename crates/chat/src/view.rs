//! The live area: what is at the bottom of the screen while the chat runs.

use std::time::{Duration, Instant};

use vestal_tui::{Line, Span, View, style};

use crate::cells;
use crate::live::{Kind, Live, Waiting};
use crate::status_line::Status;
use crate::tails::Tails;
use crate::text;

/// Time between two pictures of what turns.
pub(crate) const FRAME: Duration = Duration::from_millis(100);

/// Lines of what a tool prints that are seen of it when it is unfolded.
const UNFOLDED: usize = 8;

/// Rows that the input takes at most.
const INPUT: usize = 10;

/// What the live area is made from.
pub(crate) struct Scene<'a> {
    pub(crate) columns: u16,
    pub(crate) rows: u16,
    pub(crate) now: Instant,
    /// Since when pictures turn.
    pub(crate) epoch: Instant,
    pub(crate) live: &'a Live,
    /// What another part of the program is about.
    pub(crate) outside: Option<&'a (Instant, String)>,
    pub(crate) tails: &'a Tails,
    /// Whether more than the last line of what tools print is seen.
    pub(crate) is_unfolded: bool,
    /// What was said and has to wait.
    pub(crate) queued: Vec<String>,
    /// The question that is asked.
    pub(crate) question: Vec<Line>,
    /// The input box, with the menu that belongs to it.
    pub(crate) input: View,
    /// What stands last in the transcript.
    pub(crate) last: Option<Kind>,
    /// Something to be known about the keys.
    pub(crate) hint: Option<&'a str>,
    pub(crate) status: &'a Status,
}

/// Returns how many rows the input may take.
pub(crate) fn input_rows(rows: u16) -> usize {
    (usize::from(rows) / 2).clamp(1, INPUT)
}

/// Draws the live area: at most one row less than the terminal has, no line
/// wider than it. Where there is little room, the input comes first, then the
/// question, then what runs, then the answer.
pub(crate) fn compose(scene: &Scene<'_>) -> View {
    let columns = usize::from(scene.columns).max(1);
    let most = usize::from(scene.rows).saturating_sub(1).max(1);
    let mut room = most.saturating_sub(scene.input.lines.len());
    let status = match scene.hint {
        Some(hint) => Line::styled(hint, style::YELLOW).cut(columns),
        None => scene.status.line(columns),
    };
    let status = take(&mut room, vec![status]);
    let gap = take(&mut room, vec![Line::empty()]);
    let question = take(&mut room, scene.question.clone());
    let queued: Vec<Line> =
        scene.queued.iter().map(|words| cells::queued(words, columns)).collect();
    let queued = take(&mut room, queued);
    let work = take(&mut room, work(scene, columns));
    // Things of different kinds stand apart, as they do in the transcript.
    let first = if scene.live.answer.is_begun() {
        Some(Kind::Answer)
    } else {
        (!work.is_empty()).then_some(Kind::Tool)
    };
    let is_apart = first.is_some() && scene.last.is_some_and(|last| Some(last) != first);
    let apart =
        if is_apart && room > 1 { take(&mut room, vec![Line::empty()]) } else { Vec::new() };
    let mut said = answer(scene, room);
    // It stands apart from the transcript above it, and from what runs below it.
    if !said.is_empty() && !work.is_empty() && said.len() < room {
        said.push(Line::empty());
    }
    let mut lines: Vec<Line> = Vec::with_capacity(most);
    for part in [apart, said, work, queued, question, gap] {
        lines.extend(part);
    }
    let above = lines.len();
    let input: Vec<Line> = scene.input.lines.iter().take(most).cloned().collect();
    let cursor = scene.input.cursor.filter(|(row, _)| *row < input.len());
    let cursor = cursor.map(|(row, column)| (above + row, column.min(columns - 1)));
    lines.extend(input);
    lines.extend(status);
    let lines = lines.into_iter().map(|line| line.cut(columns)).collect();
    View { lines, cursor }
}

/// Takes as many of the last lines as there is room for.
fn take(room: &mut usize, mut lines: Vec<Line>) -> Vec<Line> {
    let over = lines.len().saturating_sub(*room);
    lines.drain(..over);
    *room -= lines.len();
    lines
}

fn answer(scene: &Scene<'_>, room: usize) -> Vec<Line> {
    let width = cells::prose_width(scene.columns);
    let mut lines = scene.live.thoughts.live(width);
    lines.extend(scene.live.answer.live(room));
    let over = lines.len().saturating_sub(room);
    lines.drain(..over);
    lines
}

/// Shows what runs.
fn work(scene: &Scene<'_>, columns: usize) -> Vec<Line> {
    let Scene { live, tails, now, .. } = scene;
    let turned = now.saturating_duration_since(scene.epoch).as_millis() / FRAME.as_millis();
    let frame = usize::try_from(turned).unwrap_or_default();
    let since = |then: Instant| now.saturating_duration_since(then);
    let mut lines = Vec::new();
    for tool in &live.tools {
        let last = if scene.is_unfolded { Vec::new() } else { tails.last(&tool.call, 1) };
        let last = last.first().map(String::as_str);
        let elapsed = since(tool.since);
        lines.push(cells::running(&tool.name, &tool.summary, elapsed, last, frame, columns));
        if scene.is_unfolded {
            let printed = tails.last(&tool.call, UNFOLDED);
            lines.extend(printed.iter().map(|line| Line::styled(format!("  {line}"), style::DIM)));
        }
    }
    for child in &live.children {
        let doing = child.doing.last().map_or("is thinking", |(_, about)| about.as_str());
        let name = format!("{}:", child.label);
        let room = columns.saturating_sub(2);
        let line = cells::running(&name, doing, since(child.since), None, frame, room);
        lines.push(line.prefixed(Span::plain("  ")));
    }
    if let Some((then, what)) = scene.outside {
        lines.push(cells::running("", what, since(*then), None, frame, columns));
    }
    if let Some((then, waiting)) = &live.waiting {
        let (name, summary) = match waiting {
            Waiting::Model => ("", "waiting for the model".to_owned()),
            Waiting::Thinking => ("", "thinking".to_owned()),
            Waiting::Call(name) => (name.as_str(), "…".to_owned()),
            Waiting::Summary => ("", "summarising the beginning of the conversation".to_owned()),
            Waiting::Retry(again) => {
                let left = again.saturating_duration_since(*now) + Duration::from_millis(999);
                ("", format!("asking again in {}", text::span(left)))
            }
            Waiting::Work(what) => ("", what.clone()),
        };
        // The answer itself shows that it comes.
        if !live.answer.is_begun() || *waiting != Waiting::Model {
            lines.push(cells::running(name, &summary, since(*then), None, frame, columns));
        }
    }
    lines
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
