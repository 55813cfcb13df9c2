//! The live area: the lines at the bottom of the screen while the chat runs.

use std::time::{Duration, Instant};

use vestal_tui::{Line, LiveArea, Span, Style, format, style};

use crate::cells;
use crate::live::{EntryKind, LiveTurn, WaitingFor};
use crate::output::OutputTails;

/// Time between two frames of the spinner.
pub(crate) const FRAME: Duration = Duration::from_millis(100);

/// Lines of tool output that are shown while `shows_more_output` is on.
const UNFOLDED: usize = 8;

/// Maximum rows of the input.
const INPUT: usize = 10;

/// Everything the live area shows.
pub(crate) struct Scene<'a> {
    pub(crate) columns: u16,
    pub(crate) rows: u16,
    pub(crate) now: Instant,
    /// Start of the spinner.
    pub(crate) epoch: Instant,
    pub(crate) live: &'a LiveTurn,
    /// What the host is doing.
    pub(crate) outside: Option<&'a (Instant, String)>,
    pub(crate) tails: &'a OutputTails,
    /// Whether more than the last line of tool output is shown.
    pub(crate) shows_more_output: bool,
    /// The to-do list, while a turn works on it.
    pub(crate) todos: Vec<Line>,
    /// Messages that wait.
    pub(crate) queued: Vec<String>,
    /// The open question.
    pub(crate) question: Vec<Line>,
    /// The input, with its menu.
    pub(crate) input: LiveArea,
    /// Kind of the last entry in the transcript.
    pub(crate) last: Option<EntryKind>,
    /// A hint in place of the status line.
    pub(crate) hint: Option<&'a str>,
    pub(crate) status: &'a StatusLine,
}

/// Returns the maximum rows of the input.
pub(crate) fn input_rows(rows: u16) -> usize {
    (usize::from(rows) / 2).clamp(1, INPUT)
}

/// Composes the live area: at most one row less than the terminal has, no line wider than
/// it. If there is little room, the input comes first, then the question, running work, and
/// the answer.
pub(crate) fn compose(scene: &Scene<'_>) -> LiveArea {
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
    // Only where an answer can still be read.
    let todos = if scene.todos.len() * 2 < room { scene.todos.clone() } else { Vec::new() };
    let todos = take(&mut room, todos);
    // A blank line separates different kinds, as in the transcript.
    let first = if scene.live.answer.is_begun() {
        Some(EntryKind::Answer)
    } else {
        (!work.is_empty()).then_some(EntryKind::Tool)
    };
    let is_apart = first.is_some() && scene.last.is_some_and(|last| Some(last) != first);
    let apart =
        if is_apart && room > 1 { take(&mut room, vec![Line::empty()]) } else { Vec::new() };
    let mut answer_lines = answer(scene, room);
    // A blank line separates the answer from running work.
    let is_more = !work.is_empty() || !todos.is_empty();
    if !answer_lines.is_empty() && is_more && answer_lines.len() < room {
        answer_lines.push(Line::empty());
    }
    let mut lines: Vec<Line> = Vec::with_capacity(most);
    for part in [apart, answer_lines, work, todos, queued, question, gap] {
        lines.extend(part);
    }
    let above = lines.len();
    let input: Vec<Line> = scene.input.lines.iter().take(most).cloned().collect();
    let cursor = scene.input.cursor.filter(|(row, _)| *row < input.len());
    let cursor = cursor.map(|(row, column)| (above + row, column.min(columns - 1)));
    lines.extend(input);
    lines.extend(status);
    let lines = lines.into_iter().map(|line| line.cut(columns)).collect();
    LiveArea { lines, cursor }
}

/// Takes the last lines that fit.
fn take(room: &mut usize, mut lines: Vec<Line>) -> Vec<Line> {
    let over = lines.len().saturating_sub(*room);
    lines.drain(..over);
    *room -= lines.len();
    lines
}

fn answer(scene: &Scene<'_>, room: usize) -> Vec<Line> {
    let width = cells::prose_width(scene.columns);
    let mut lines = scene.live.reasoning.live(width);
    lines.extend(scene.live.answer.live(room));
    let over = lines.len().saturating_sub(room);
    lines.drain(..over);
    lines
}

/// Renders running work.
fn work(scene: &Scene<'_>, columns: usize) -> Vec<Line> {
    let Scene { live, tails, now, .. } = scene;
    let turned = now.saturating_duration_since(scene.epoch).as_millis() / FRAME.as_millis();
    let frame = usize::try_from(turned).unwrap_or_default();
    let since = |then: Instant| now.saturating_duration_since(then);
    let mut lines = Vec::new();
    for tool in &live.tools {
        let last = if scene.shows_more_output { Vec::new() } else { tails.last(&tool.call, 1) };
        let last = last.first().map(String::as_str);
        let elapsed = since(tool.since);
        lines.push(cells::running(&tool.name, &tool.summary, elapsed, last, frame, columns));
        if scene.shows_more_output {
            let printed = tails.last(&tool.call, UNFOLDED);
            lines.extend(printed.iter().map(|line| Line::styled(format!("  {line}"), style::DIM)));
        }
    }
    for child in &live.children {
        let doing = child.doing.last().map_or("thinking", |(_, about)| about.as_str());
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
            WaitingFor::Model => ("", "waiting for the model".to_owned()),
            WaitingFor::Thinking => ("", "thinking".to_owned()),
            WaitingFor::Call(name) => (name.as_str(), "…".to_owned()),
            WaitingFor::Summary => ("", "summarising the beginning of the conversation".to_owned()),
            WaitingFor::Retry(again) => {
                let left = again.saturating_duration_since(*now) + Duration::from_millis(999);
                ("", format!("retrying in {}", format::clock(left)))
            }
            WaitingFor::Work(what) => ("", what.clone()),
        };
        // The answer itself shows progress.
        if !live.answer.is_begun() || *waiting != WaitingFor::Model {
            lines.push(cells::running(name, &summary, since(*then), None, frame, columns));
        }
    }
    lines
}

/// How running work is stopped.
const INTERRUPT: &str = "Esc interrupts";

/// Columns from which that is shown.
const ROOM_FOR_HINT: usize = 40;

/// Contents of the status line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StatusLine {
    pub(crate) model: String,
    /// Tokens of the last request and its answer.
    pub(crate) used: u64,
    /// Context window of the model in tokens, if known.
    pub(crate) context_window: Option<u64>,
    /// Cost of this chat, if known.
    pub(crate) cost_micro_usd: Option<u64>,
    /// Whether some calls have no known cost.
    pub(crate) is_cost_partial: bool,
    /// Where commands run: `native/default`.
    pub(crate) sandbox: String,
    /// State of the sandbox.
    pub(crate) state: &'static str,
    /// Running background jobs.
    pub(crate) jobs: usize,
    /// How much the model thinks, in a word; empty where that is left to the provider.
    pub(crate) reasoning: String,
    /// Whether the agent only plans.
    pub(crate) is_planning: bool,
    /// Whether approvals are off.
    pub(crate) is_yolo: bool,
    /// Duration of the running turn.
    pub(crate) elapsed: Option<Duration>,
}

impl StatusLine {
    /// Renders the line. Parts that do not fit are left out from the right, but never
    /// `PLAN` and `YOLO`.
    pub(crate) fn line(&self, columns: usize) -> Line {
        let mut pieces: Vec<(String, Style)> = Vec::new();
        let mut put = |text: String, style: Style| {
            if !text.is_empty() {
                pieces.push((text, style));
            }
        };
        put(format!("{} {}", self.model, self.reasoning).trim().to_owned(), style::DIM);
        put(self.context(), self.context_style());
        put(self.cost(), style::DIM);
        put(self.sandbox_state(), style::DIM);
        if self.jobs > 0 {
            put(format::count(self.jobs, "job"), style::DIM);
        }
        // Always shown: how to interrupt, that the agent only plans, and that approvals are off.
        let mut tail: Vec<Span> = Vec::new();
        if let Some(elapsed) = self.elapsed {
            if columns >= ROOM_FOR_HINT {
                tail.push(Span::new(
                    format!("{INTERRUPT} · {}", format::clock(elapsed)),
                    style::DIM,
                ));
            } else {
                put(format::clock(elapsed), style::DIM);
            }
        }
        if self.is_planning {
            tail.push(Span::new("PLAN", style::CYAN.bold()));
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
        match (self.used, self.context_window) {
            (0, _) => String::new(),
            (used, Some(holds)) if holds > 0 => format!(
                "context {}/{} ({}%)",
                format::rough(used),
                format::rough(holds),
                used.saturating_mul(100) / holds
            ),
            (used, _) => format!("context {}", format::rough(used)),
        }
    }

    /// A nearly full context is highlighted.
    fn context_style(&self) -> Style {
        match self.context_window {
            Some(holds) if self.used.saturating_mul(100) / holds.max(1) >= 80 => style::YELLOW,
            _ => style::DIM,
        }
    }

    fn cost(&self) -> String {
        match self.cost_micro_usd {
            Some(paid) if self.is_cost_partial => format!("≥{}", format::dollars(paid)),
            Some(paid) => format::dollars(paid),
            None => String::new(),
        }
    }

    fn sandbox_state(&self) -> String {
        match (self.sandbox.is_empty(), self.state.is_empty()) {
            (true, _) => String::new(),
            (false, true) => self.sandbox.clone(),
            (false, false) => format!("{} ({})", self.sandbox, self.state),
        }
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
