//! From values to text.

use super::node::{Node, NodeKind, Style};

/// Writes a value on one line, safe in block and in flow context.
pub(crate) fn flow(node: &Node) -> String {
    match &node.kind {
        NodeKind::Scalar { text, style } => scalar(text, *style),
        NodeKind::List { items, .. } => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        NodeKind::Map { entries, .. } => {
            let entries: Vec<String> = entries
                .iter()
                .map(|entry| format!("{}: {}", flow(&entry.key), flow(&entry.value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        NodeKind::Unsupported(what) => quote(what),
    }
}

fn scalar(text: &str, style: Style) -> String {
    match style {
        Style::Plain if text.is_empty() => "null".to_owned(),
        Style::Plain if is_plain_safe(text) => text.to_owned(),
        _ => quote(text),
    }
}

/// Writes text so that it reads back as exactly that text: plain when that is
/// beyond doubt, else in double quotes.
pub(crate) fn quote(text: &str) -> String {
    if is_plain_safe(text) && !reads_as_something_else(text) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if needs_escape(c) => out.push_str(&escape(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn is_plain_safe(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "_./~+-@%:".contains(c);
    let first = |c: char| c.is_ascii_alphanumeric() || "_./~+".contains(c);
    text.chars().next().is_some_and(first)
        && text.chars().all(inner)
        && !text.ends_with(':')
        && text != "..."
}

/// Reports whether plain text would be taken for null, a boolean or a number.
fn reads_as_something_else(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let word =
        matches!(lower.as_str(), "~" | "null" | "true" | "false" | "yes" | "no" | "on" | "off");
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || "+.".contains(c))
        && text.chars().all(|c| c.is_ascii_hexdigit() || "_.+-xoe:".contains(c));
    word || numeric
}

fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn escape(c: char) -> String {
    let code = u32::from(c);
    if code <= 0xff { format!("\\x{code:02x}") } else { format!("\\u{code:04x}") }
}
