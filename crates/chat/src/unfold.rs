//! What calls printed, kept for whoever wants to see more of it.

use std::collections::VecDeque;

use vestal_tui::{Line, Span, diff, style};

use crate::live::Unfoldable;

/// Bytes that are kept, all calls together.
const KEPT: usize = 1 << 20;

/// The output of the last calls, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Unfold {
    kept: VecDeque<Unfoldable>,
    size: usize,
}

impl Unfold {
    /// Keeps what a call printed, and forgets what is too old.
    pub(crate) fn keep(&mut self, call: Unfoldable) {
        self.size += size(&call);
        self.kept.push_back(call);
        while self.size > KEPT {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.size -= size(&oldest);
        }
    }

    /// Takes the newest one that has not been unfolded, and shows all of it.
    pub(crate) fn unfold(&mut self) -> Option<Vec<Line>> {
        let call = self.kept.pop_back()?;
        self.size -= size(&call);
        let mut head = Line::from_spans(vec![Span::new("▾ ", style::CYAN)]);
        head.push(Span::plain(call.about.trim_end()));
        let mut lines = vec![head];
        if call.tail.is_cut() {
            lines.push(Line::styled("  … the beginning is not kept", style::DIM));
        }
        if !call.tail.is_empty() {
            lines.extend(
                call.tail.lines().map(|line| Line::styled(format!("  {line}"), style::DIM)),
            );
        }
        for change in &call.changes {
            let shown = diff::render(change, usize::MAX);
            lines.extend(shown.into_iter().map(|line| line.prefixed(Span::plain("  "))));
        }
        Some(lines)
    }
}

fn size(call: &Unfoldable) -> usize {
    call.about.len() + call.tail.size() + call.changes.iter().map(String::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tails::{self, Tail};

    fn call(about: &str, printed: &str) -> Unfoldable {
        let mut tail = Tail::default();
        tail.push(printed);
        Unfoldable { about: about.to_owned(), tail, changes: Vec::new() }
    }

    #[test]
    fn calls_are_unfolded_from_the_newest_on_and_each_once() {
        let mut unfold = Unfold::default();
        unfold.keep(call("first", "a\nb\n"));
        unfold.keep(call("second", "c"));
        let texts = |lines: Option<Vec<Line>>| -> Vec<String> {
            lines.unwrap_or_default().iter().map(Line::text).collect()
        };
        assert_eq!(texts(unfold.unfold()), ["▾ second", "  c"]);
        assert_eq!(texts(unfold.unfold()), ["▾ first", "  a", "  b"]);
        assert_eq!(unfold.unfold(), None);
        assert_eq!(unfold.size, 0);
    }

    #[test]
    fn an_hour_of_calls_costs_no_more_than_what_can_be_unfolded() {
        let mut unfold = Unfold::default();
        for number in 0..1000 {
            unfold.keep(call(&format!("call {number}"), &"x".repeat(tails::KEPT)));
        }
        assert!(unfold.size <= KEPT, "{}", unfold.size);
        assert!(unfold.kept.len() >= 10, "{}", unfold.kept.len());
        assert!(unfold.unfold().unwrap()[0].text().ends_with("call 999"));
    }
}
