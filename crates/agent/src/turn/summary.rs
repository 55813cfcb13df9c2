//! What a call is about, in a line for those who watch.

use serde_json::Value;

/// Arguments that say most about a call, the most telling first.
const TELLING: &[&str] = &["command", "path", "pattern", "goal", "question", "action", "code"];

/// Characters of it.
const MOST: usize = 120;

/// Says what a call is about.
pub(super) fn summary(arguments: &Value) -> String {
    let Some(arguments) = arguments.as_object() else {
        return String::new();
    };
    let telling = TELLING.iter().find_map(|name| arguments.get(*name)?.as_str());
    let first = || arguments.values().find_map(Value::as_str);
    let words = telling.or_else(first).unwrap_or_default();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_telling_argument_is_shown_in_one_line() {
        assert_eq!(summary(&json!({"timeout": 3, "command": "make\n  test"})), "make test");
        assert_eq!(summary(&json!({"action": "poll", "session_id": "j"})), "poll");
        assert_eq!(summary(&json!({"odd": "words"})), "words");
        assert_eq!(summary(&json!({"n": 1})), "");
        assert_eq!(summary(&json!([])), "");
        assert_eq!(summary(&json!({"path": "é".repeat(500)})).chars().count(), MOST + 1);
    }
}
