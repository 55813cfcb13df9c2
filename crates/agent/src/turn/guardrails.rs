//! Notices a model that goes round in circles.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use vestal_model::{ToolCall, ToolResult};

/// When a model is told that it goes round in circles, and when it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guardrails {
    /// Times after which it is told.
    pub warn_after: u32,
    /// Times after which the turn ends; none: never.
    pub stop_after: Option<u32>,
}

impl Default for Guardrails {
    fn default() -> Self {
        Self { warn_after: 3, stop_after: Some(8) }
    }
}

/// What a call means for the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Nothing.
    Fine,
    /// The model should hear this.
    Warn(String),
    /// The turn should end.
    Stop(String),
}

/// Remembers the calls of one turn.
///
/// Two things count: the same call that comes to the same result again and
/// again, and calls that fail one after the other, whatever they are. A poll
/// whose answer changes is neither.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    rails: Guardrails,
    repeats: HashMap<u64, (u64, u32)>,
    failures: u32,
}

impl Watch {
    pub(crate) fn new(rails: Guardrails) -> Self {
        Self { rails, ..Self::default() }
    }

    /// Takes note of a call and what it came to.
    pub(crate) fn note(&mut self, call: &ToolCall, result: &ToolResult) -> Finding {
        let (asked, got) = (hash(&(&call.name, &call.arguments)), hash(&result.content));
        let (last, times) = self.repeats.entry(asked).or_insert((got, 0));
        if *last == got {
            *times += 1;
        } else {
            (*last, *times) = (got, 1);
        }
        let times = *times;
        self.failures = if result.is_error { self.failures + 1 } else { 0 };
        let repeated = || {
            format!(
                "{} was called {times} times with the same arguments and the same result",
                call.name
            )
        };
        let failing = || format!("{} tool calls failed one after the other", self.failures);
        let reached = |limit: u32, count: u32| count >= limit;
        match self.rails.stop_after {
            Some(limit) if reached(limit, times) => return Finding::Stop(repeated()),
            Some(limit) if reached(limit, self.failures) => return Finding::Stop(failing()),
            _ => {}
        }
        let warn = self.rails.warn_after;
        if reached(warn, times) {
            Finding::Warn(format!(
                "{}. Doing it again will not change that: try something else, or say what is in the way.",
                repeated()
            ))
        } else if reached(warn, self.failures) {
            Finding::Warn(format!(
                "{}. Read the errors, change the approach, or say what is in the way.",
                failing()
            ))
        } else {
            Finding::Fine
        }
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> ToolCall {
        ToolCall { id: "c".into(), name: "terminal".into(), arguments: arguments.into() }
    }

    fn result(content: &str, is_error: bool) -> ToolResult {
        let (call, name) = ("c".into(), "terminal".into());
        ToolResult { call, name, content: content.into(), is_error, images: Vec::new() }
    }

    fn watch() -> Watch {
        Watch::new(Guardrails { warn_after: 2, stop_after: Some(4) })
    }

    #[test]
    fn the_same_call_with_the_same_result_is_warned_of_then_stopped() {
        let mut watch = watch();
        let mut note = || watch.note(&call("a"), &result("same", false));
        assert_eq!(note(), Finding::Fine);
        assert!(matches!(note(), Finding::Warn(_)));
        assert!(matches!(note(), Finding::Warn(_)));
        assert!(matches!(note(), Finding::Stop(_)));
    }

    #[test]
    fn a_poll_whose_answer_changes_is_fine() {
        let mut watch = watch();
        for n in 0..20 {
            assert_eq!(watch.note(&call("a"), &result(&n.to_string(), false)), Finding::Fine);
        }
    }

    #[test]
    fn failures_in_a_row_are_stopped_and_a_success_ends_the_row() {
        let mut watch = watch();
        let fail = |n: u32, watch: &mut Watch| {
            watch.note(&call(&n.to_string()), &result(&n.to_string(), true))
        };
        assert_eq!(fail(0, &mut watch), Finding::Fine);
        assert!(matches!(fail(1, &mut watch), Finding::Warn(_)));
        assert_eq!(watch.note(&call("x"), &result("x", false)), Finding::Fine);
        for n in 2..5 {
            assert!(!matches!(fail(n, &mut watch), Finding::Stop(_)));
        }
        assert!(matches!(fail(5, &mut watch), Finding::Stop(_)));
    }

    #[test]
    fn without_a_limit_nothing_is_stopped() {
        let mut watch = Watch::new(Guardrails { warn_after: 2, stop_after: None });
        for _ in 0..50 {
            assert!(!matches!(watch.note(&call("a"), &result("same", true)), Finding::Stop(_)));
        }
    }
}
