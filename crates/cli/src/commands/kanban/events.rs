//! What happened, for people and programs.

use serde_json::Value;
use vestal_board::Event;

use super::desk::Desk;
use super::look;
use crate::console::{DIM, GREEN, RED, YELLOW, text};
use crate::error::Failure;

/// Characters shown of a title.
const TITLE: usize = 40;
/// Characters shown of a value.
const LONGEST: usize = 120;

/// Prints an event on a line, with the title of its task where there are several.
pub(super) fn print(desk: &Desk<'_>, event: &Event, title: Option<&str>) -> Result<(), Failure> {
    let console = desk.console();
    let style = match event.kind.as_str() {
        "completed" | "promoted" | "promoted_manual" | "unblocked" | "submitted" => GREEN,
        "gave_up" | "crashed" | "timed_out" | "block_loop_detected" | "spawn_failed" => RED,
        "blocked" | "stale" | "reclaimed" | "protocol_violation" | "rate_limited"
        | "changes_requested" => YELLOW,
        _ => anstyle::Style::new(),
    };
    let kind = text::printable(&event.kind);
    let title = title.map(|title| format!("{}  ", cut(&text::printable(title), TITLE)));
    console.print(
        format!(
            "{}  {}  {}  {}{}",
            console.paint(DIM, &look::clock(event.created_at)),
            event.task_id,
            console.paint(style, &format!("{kind:<18}")),
            title.unwrap_or_default(),
            console.paint(DIM, &text::printable(&details(event))),
        )
        .trim_end(),
    )
}

/// Returns what is known about an event beside its kind, in short.
pub(super) fn details(event: &Event) -> String {
    let mut said: Vec<String> = Vec::new();
    if let Some(run) = event.run_id {
        said.push(format!("run {run}"));
    }
    if let Value::Object(payload) = &event.payload {
        for (name, value) in payload {
            // Said elsewhere in the line, or of no use to people.
            if ["run_id", "expires", "lock", "comment", "person"].contains(&name.as_str()) {
                continue;
            }
            let value = match value {
                Value::Null | Value::Bool(false) => continue,
                Value::Bool(true) => {
                    said.push(name.clone());
                    continue;
                }
                Value::Array(entries) if entries.is_empty() => continue,
                Value::Array(entries) => entries.iter().map(plain).collect::<Vec<_>>().join(","),
                value => plain(value),
            };
            if !value.is_empty() {
                said.push(format!("{name}={}", shortened(&value)));
            }
        }
    }
    said.join("  ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shortened(text: &str) -> String {
    cut(&text.replace('\n', " "), LONGEST)
}

fn cut(line: &str, longest: usize) -> String {
    let mut characters = line.chars();
    let shown: String = characters.by_ref().take(longest).collect();
    if characters.next().is_some() { format!("{shown}…") } else { shown }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vestal_board::{RunId, Time};

    use super::*;

    #[test]
    fn details_leave_out_what_says_nothing() {
        let event = Event {
            id: 1,
            task_id: "t_000000000000".parse().unwrap(),
            run_id: Some(RunId::new(3)),
            kind: "created".to_owned(),
            payload: json!({"assignee": "a", "parents": [], "tenant": null, "forced": true,
                "skills": ["x", "y"], "off": false, "long": "l\n".repeat(200)}),
            created_at: Time::from_millis(0),
        };
        let said = details(&event);
        assert!(said.starts_with("run 3  assignee=a  forced"), "{said}");
        assert!(said.contains("skills=x,y") && !said.contains("tenant"), "{said}");
        assert!(said.contains('…') && !said.contains('\n'), "{said}");
    }
}
