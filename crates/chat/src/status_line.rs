//! The line at the bottom: where one is, and what it has cost.

use std::time::Duration;

use vestal_tui::{Line, Span, Style, style};

use crate::text;

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
            put(text::count(self.jobs, "job"), style::DIM);
        }
        // What is always seen: how to stop what runs, and that nothing is asked about.
        let mut tail: Vec<Span> = Vec::new();
        if let Some(elapsed) = self.elapsed {
            if columns >= ROOM_FOR_HINT {
                tail.push(Span::new(format!("{INTERRUPT} · {}", text::span(elapsed)), style::DIM));
            } else {
                put(text::span(elapsed), style::DIM);
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
                text::tokens(used),
                text::tokens(holds),
                used.saturating_mul(100) / holds
            ),
            (used, _) => format!("context {}", text::tokens(used)),
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
            Some(paid) if self.is_paid_partly => format!("≥{}", text::dollars(paid)),
            Some(paid) => text::dollars(paid),
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
#[path = "status_line_tests.rs"]
mod tests;
