//! Why a text was not changed, in words that help to ask again.

use serde_json::{Value, json};

use super::find::{Mismatch, Region};
use crate::tool::{ToolContext, ToolOutput};
use crate::tools::files::numbered_lines;

/// Returns what the model reads when a text does not fit.
pub(super) fn mismatch(
    context: &ToolContext,
    path: &str,
    old: &str,
    mismatch: Mismatch,
) -> ToolOutput {
    let content = match mismatch {
        Mismatch::Empty => json!({
            "error": "`old_string` is empty; to make a file or replace all of it use write_file",
        }),
        Mismatch::Same => json!({
            "error": "`new_string` is what the file has there already, so nothing would change",
        }),
        Mismatch::Ambiguous { count, lines } => {
            let named: Vec<String> = lines.iter().map(usize::to_string).collect();
            let more = if count > lines.len() { ", …" } else { "" };
            json!({
                "error": format!(
                    "`old_string` is in {path} {count} times, in lines {}{more}; add lines around \
                     it until it is in one place only, or set `replace_all`",
                    named.join(", ")
                ),
                "occurrences": count,
            })
        }
        Mismatch::Missing { .. } if numbered_lines(old).is_some() => json!({
            "error": "`old_string` starts with a line number and `|`, as read_file shows them; \
                they are not part of the file. Leave them out of both strings",
        }),
        Mismatch::Missing { closest, done_at } => missing(context, path, closest, done_at),
    };
    ToolOutput { is_error: true, ..ToolOutput::json(&content) }
}

fn missing(
    context: &ToolContext,
    path: &str,
    closest: Option<Region>,
    done_at: Option<usize>,
) -> Value {
    let mut error = format!("`old_string` is not in {path}");
    if let Some(line) = done_at {
        let remark = format!(
            "; `new_string` is in line {line} already, so the change may have been made before"
        );
        error.push_str(&remark);
    }
    let Some(Region { first, lines }) = closest else {
        error.push_str("; nothing in the file is like it. Read the file first");
        return json!({ "error": error });
    };
    error.push_str("; repeat it as the file has it. `closest` is the place most like it");
    let shown = lines.join("\n");
    let shown = context.redactor.redact_file(&shown);
    let cut = |line: &str| line.chars().take(context.limits.line_length).collect::<String>();
    let numbered = shown.split('\n').zip(first..);
    let numbered: Vec<String> =
        numbered.map(|(line, number)| format!("{number}|{}", cut(line))).collect();
    json!({ "error": error, "closest": numbered.join("\n") })
}
