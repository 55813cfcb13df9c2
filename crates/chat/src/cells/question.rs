//! Questions to the person.

use std::time::Duration;

use vestal_agent::{ApprovalRequest, Question};
use vestal_tui::{Line, Span, style};

use super::wrapped;
use crate::asked::Asker;
use crate::text;

/// Lines of what is asked about that are shown; all of it is in the transcript.
const ACTION: usize = 12;

/// Asks for an approval. The keys are named only when they are heard.
pub(crate) fn approval(
    request: &ApprovalRequest,
    left: Duration,
    is_heard: bool,
    width: usize,
) -> Vec<Line> {
    let mut lines = wrapped(
        &format!("The agent asks to do something that {}:", request.reason),
        width,
        "  ",
        |_, text| Line::styled(text, style::YELLOW),
    );
    let total = request.action.lines().count();
    for line in request.action.lines().take(ACTION) {
        lines.extend(Line::plain(line).prefixed(Span::plain("  ")).wrap(width, "    "));
    }
    if total > ACTION {
        let more = format!("  … {} more", text::count(total - ACTION, "line"));
        lines.push(Line::styled(more, style::DIM));
    }
    if !is_heard {
        lines.push(Line::styled("…", style::DIM));
        return lines;
    }
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
    lines.extend(keys.wrap(width, "  "));
    if request.may_last {
        let always = format!("always means: {}", request.pattern);
        lines.extend(wrapped(&always, width, "  ", |_, text| Line::styled(text, style::DIM)));
    }
    lines
}

/// Asks what the model, or the program, wants to know. How to answer is said
/// when answers are heard.
pub(crate) fn clarification(
    question: &Question,
    by: Asker,
    is_heard: bool,
    width: usize,
) -> Vec<Line> {
    let asked = match by {
        Asker::Agent => format!("The agent asks: {}", question.question),
        Asker::Program => question.question.clone(),
    };
    let mut lines = wrapped(&asked, width, "  ", |_, text| Line::styled(text, style::YELLOW));
    for (number, choice) in (1..).zip(&question.choices) {
        let choice = Line::from_spans(vec![
            Span::plain("  ["),
            Span::new(number.to_string(), style::BOLD),
            Span::plain(format!("] {choice}")),
        ]);
        lines.extend(choice.wrap(width, "      "));
    }
    let how = if !is_heard {
        "…"
    } else if question.choices.is_empty() {
        "type the answer; Esc leaves it unanswered"
    } else {
        "type a number or other words; Esc leaves it unanswered"
    };
    lines.push(Line::styled(how, style::DIM));
    lines
}
