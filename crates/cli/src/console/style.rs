//! Colour, where a terminal shows it.

use anstyle::{AnsiColor, Style};
use vestal_config::Environment;

/// For what stands out.
pub(crate) const BOLD: Style = Style::new().bold();
/// For what may be passed over.
pub(crate) const DIM: Style = Style::new().dimmed();
/// For what is well.
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
/// For what deserves attention.
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
/// For what is wrong.
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();

/// Whether a stream shows colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    On,
    Off,
}

impl Colour {
    /// Decides for one stream. `NO_COLOR` with any value turns colour off.
    pub(super) fn decide(environment: &Environment, is_terminal: bool) -> Self {
        let refused = environment.non_empty("NO_COLOR").is_some()
            || environment.get("TERM").is_some_and(|term| term == "dumb");
        if is_terminal && !refused { Self::On } else { Self::Off }
    }

    /// Returns text in a style.
    pub(super) fn paint(self, style: Style, text: &str) -> String {
        match self {
            Self::On => format!("{style}{text}{style:#}"),
            Self::Off => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_and_only_if_not_refused() {
        let none: [(&str, &str); 0] = [];
        let plain = Environment::from_pairs(none);
        assert_eq!(Colour::decide(&plain, true), Colour::On);
        assert_eq!(Colour::decide(&plain, false), Colour::Off);
        let refused = Environment::from_pairs([("NO_COLOR", "1")]);
        assert_eq!(Colour::decide(&refused, true), Colour::Off);
        let dumb = Environment::from_pairs([("TERM", "dumb")]);
        assert_eq!(Colour::decide(&dumb, true), Colour::Off);
    }
}
