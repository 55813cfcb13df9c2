//! Questions to the person.

use std::time::Duration;

use vestal_agent::{ApprovalRequest, Question};
use vestal_tui::{Line, Span, style};

use super::wrapped;
use crate::text;

/// Rows of what is asked about that are seen at most.
const BODY: usize = 12;

/// Rows that a question leaves to what stands around it: the input and its
/// frame, the status, and one for what runs.
const AROUND: usize = 5;

/// Where and how a question is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) width: usize,
    /// Rows of the terminal.
    pub(crate) rows: u16,
    /// Whether its keys are heard: they are named only then.
    pub(crate) is_heard: bool,
    /// Whether all of it stands in the transcript.
    pub(crate) is_told: bool,
}

/// A question as it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) lines: Vec<Line>,
    /// Whether a part of what is asked about is not seen.
    pub(crate) is_folded: bool,
}

/// Asks for an approval.
pub(crate) fn approval(request: &ApprovalRequest, left: Duration, frame: Frame) -> Shown {
    let width = frame.width;
    let reason = format!("The agent asks to do something that {}:", request.reason);
    let head = wrapped(&reason, width, "  ", |_, text| Line::styled(text, style::YELLOW));
    let mut keys = Line::empty();
    let mut key = |letter: &str, rest: &str| {
        keys.push(Span::plain("["));
        keys.push(Span::new(letter, style::BOLD));
        keys.push(Span::plain(format!("]{rest}  ")));
    };
    key("o", "nce");
    key("c", "onversation");
    if request.may_last {
        key("a", "lways");
    }
    key("d", "eny");
    keys.push(Span::new(format!("· {} left", text::span(left)), style::DIM));
    let mut tail = keys.wrap(width, "  ");
    if request.may_last {
        let always = format!("always means: {}", request.pattern);
        tail.extend(wrapped(&always, width, "  ", |_, text| Line::styled(text, style::DIM)));
    }
    shown(head, action(request, width), tail, frame)
}

/// Returns all of what an approval is asked for.
pub(crate) fn action(request: &ApprovalRequest, width: usize) -> Vec<Line> {
    wrapped(&request.action, width, "    ", |_, text| Line::plain(text).prefixed(Span::plain("  ")))
}

/// Asks what the model wants to know.
pub(crate) fn clarification(question: &Question, frame: Frame) -> Shown {
    asked(&format!("The agent asks: {}", question.question), &question.choices, frame)
}

/// Asks what this program wants to know.
pub(crate) fn choice(question: &Question, frame: Frame) -> Shown {
    asked(&question.question, &question.choices, frame)
}

fn asked(question: &str, choices: &[String], frame: Frame) -> Shown {
    let width = frame.width;
    let body = wrapped(question, width, "  ", |_, text| Line::styled(text, style::YELLOW));
    let mut tail = Vec::new();
    for (number, choice) in (1..).zip(choices) {
        let choice = Line::from_spans(vec![
            Span::plain("  ["),
            Span::new(number.to_string(), style::BOLD),
            Span::plain(format!("] {choice}")),
        ]);
        tail.extend(choice.wrap(width, "      "));
    }
    let how = if choices.is_empty() {
        "type the answer; Esc leaves it unanswered"
    } else {
        "type a number or other words; Esc leaves it unanswered"
    };
    if frame.is_heard {
        tail.push(Line::styled(how, style::DIM));
        return shown(Vec::new(), body, tail, frame);
    }
    // Choices are part of the question, how to answer is not.
    tail.push(Line::styled("…", style::DIM));
    shown(Vec::new(), body, tail, Frame { is_heard: true, ..frame })
}

/// Puts a question together. Where there is little room for what it is about,
/// that much is said: nobody approves of what they do not know to be there.
fn shown(head: Vec<Line>, body: Vec<Line>, tail: Vec<Line>, frame: Frame) -> Shown {
    let room = usize::from(frame.rows).saturating_sub(AROUND + head.len() + tail.len());
    let most = room.clamp(1, BODY);
    let hidden = body.len().saturating_sub(most);
    let is_folded = hidden > 0;
    let mut lines = head;
    lines.extend(body.into_iter().take(most));
    if is_folded {
        let whole = if frame.is_told { "all of it stands above" } else { "Ctrl-O shows all of it" };
        let more = format!("  … {} more; {whole}", text::count(hidden, "row"));
        lines.extend(Line::styled(more, style::YELLOW).wrap(frame.width, "    "));
    }
    if frame.is_heard {
        lines.extend(tail);
    } else {
        lines.push(Line::styled("…", style::DIM));
    }
    Shown { lines, is_folded }
}
