//! The live area: the lines at the bottom of the screen while the chat runs.

use std::time::{Duration, Instant};

use vestal_tui::{Line, Span, Style, View, style};

use crate::live::{Kind, Live, Waiting};
use crate::tool_output::Tails;
use crate::{cells, format};

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
                ("", format!("asking again in {}", format::span(left)))
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

/// Says how what runs is stopped.
const INTERRUPT: &str = "Esc interrupts";

/// Columns from which that is said.
const ROOM_FOR_HINT: usize = 40;

/// What the line at the bottom says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) model: String,
    /// Tokens of the last request and its answer.
    pub(crate) used: u64,
    /// Tokens the model can hold, if that is known.
    pub(crate) holds: Option<u64>,
    /// What was paid in this chat, if anything is known.
    pub(crate) paid: Option<u64>,
    /// Whether it is not all that was paid.
    pub(crate) is_paid_partly: bool,
    /// Where commands run: `native/default`.
    pub(crate) place: String,
    /// How that place is.
    pub(crate) state: &'static str,
    /// Background jobs that run there.
    pub(crate) jobs: usize,
    /// Whether nothing is asked about.
    pub(crate) is_yolo: bool,
    /// How long the turn has run.
    pub(crate) elapsed: Option<Duration>,
}

impl Status {
    /// Returns the line. What does not fit is left out from the right; that
    /// nothing is asked about is never left out.
    pub(crate) fn line(&self, columns: usize) -> Line {
        let mut pieces: Vec<(String, Style)> = Vec::new();
        let mut put = |text: String, style: Style| {
            if !text.is_empty() {
                pieces.push((text, style));
            }
        };
        put(self.model.clone(), style::DIM);
        put(self.context(), self.context_style());
        put(self.cost(), style::DIM);
        put(self.whereabouts(), style::DIM);
        if self.jobs > 0 {
            put(format::count(self.jobs, "job"), style::DIM);
        }
        // What is always seen: how to stop what runs, and that nothing is asked about.
        let mut tail: Vec<Span> = Vec::new();
        if let Some(elapsed) = self.elapsed {
            if columns >= ROOM_FOR_HINT {
                tail.push(Span::new(
                    format!("{INTERRUPT} · {}", format::span(elapsed)),
                    style::DIM,
                ));
            } else {
                put(format::span(elapsed), style::DIM);
            }
        }
        if self.is_yolo {
            tail.push(Span::new("YOLO", style::RED.bold()));
        }
        let reserved: usize =
            tail.iter().map(|span| Line::from_spans(vec![span.clone()]).width() + 3).sum();
        let mut line = Line::empty();
        for (text, style) in pieces {
            let piece = Span::new(text, style);
            let gap = if line.width() == 0 { 0 } else { 3 };
            let width = Line::from_spans(vec![piece.clone()]).width();
            if line.width() + gap + width + reserved > columns {
                break;
            }
            if gap > 0 {
                line.push(Span::new(" · ", style::DIM));
            }
            line.push(piece);
        }
        for span in tail {
            if line.width() > 0 {
                line.push(Span::new(" · ", style::DIM));
            }
            line.push(span);
        }
        line.cut(columns)
    }

    fn context(&self) -> String {
        match (self.used, self.holds) {
            (0, _) => String::new(),
            (used, Some(holds)) if holds > 0 => format!(
                "context {}/{} ({}%)",
                format::tokens(used),
                format::tokens(holds),
                used.saturating_mul(100) / holds
            ),
            (used, _) => format!("context {}", format::tokens(used)),
        }
    }

    /// A context that is nearly full is worth a look.
    fn context_style(&self) -> Style {
        match self.holds {
            Some(holds) if self.used.saturating_mul(100) / holds.max(1) >= 80 => style::YELLOW,
            _ => style::DIM,
        }
    }

    fn cost(&self) -> String {
        match self.paid {
            Some(paid) if self.is_paid_partly => format!("≥{}", format::dollars(paid)),
            Some(paid) => format::dollars(paid),
            None => String::new(),
        }
    }

    fn whereabouts(&self) -> String {
        match (self.place.is_empty(), self.state.is_empty()) {
            (true, _) => String::new(),
            (false, true) => self.place.clone(),
            (false, false) => format!("{} ({})", self.place, self.state),
        }
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
