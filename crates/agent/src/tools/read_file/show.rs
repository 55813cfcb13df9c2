//! What the model sees of a file.

use serde_json::{Value, json};
use vestal_wire::Metadata;

use super::binary::Content;
use super::collect::Collector;
use crate::tool::ToolContext;
use crate::tools::files::{Place, Text};

/// What is said instead of content that the model has already.
pub(in crate::tools) const UNCHANGED: &str = "The file has not changed since you read these lines; they are further up in this conversation.";

/// Says that a page was shown before and is still the same.
pub(super) fn unchanged(place: &Place) -> Value {
    json!({ "path": place.shown(), "status": "unchanged", "unchanged": true, "note": UNCHANGED })
}

/// Returns the lines with their numbers; the error is a result too, for files
/// that are no text.
pub(super) fn text(
    context: &ToolContext,
    place: &Place,
    metadata: &Metadata,
    collector: &Collector,
) -> Result<Value, Value> {
    let file_size = metadata.version.size;
    let binary = |hint: &str| {
        let error = format!("{} is a binary file and cannot be shown as text", place.shown());
        json!({ "error": error, "is_binary": true, "file_size": file_size, "hint": hint })
    };
    match collector.content {
        Content::Text => {}
        Content::Image => {
            let mut image = binary(
                "It is an image. Look at it with a tool for images if there is one, or examine it \
                 with a program in the terminal.",
            );
            image["is_image"] = true.into();
            return Err(image);
        }
        Content::Binary => {
            return Err(binary("Examine it in the terminal, with file, xxd or strings."));
        }
    }
    let total = collector.total();
    let first = collector.first_number();
    let page = Lines::new(context, collector);
    let most = context.limits.result_bytes;
    let mut content = String::new();
    let mut shown = 0_u64;
    let mut cut_lines = 0_u64;
    for line in &page.lines {
        let cut = line.char_indices().nth(context.limits.line_length).map(|(at, _)| at);
        let text = &line[..cut.unwrap_or(line.len())];
        let more = if cut.is_some() { "… [line cut]" } else { "" };
        let numbered = format!("{}|{text}{more}\n", first + shown);
        // A line longer than everything is shown all the same, or nobody could go on.
        if shown > 0 && content.len() + numbered.len() > most {
            break;
        }
        content.push_str(&numbered);
        shown += 1;
        cut_lines += u64::from(cut.is_some());
    }
    content.pop();
    let next = first + shown;
    let truncated = next <= total || !collector.counted;
    let mut result = json!({
        "content": content,
        "total_lines": total,
        "file_size": file_size,
        "truncated": truncated,
    });
    let mut hints = Vec::new();
    if shown == 0 && total == 0 {
        hints.push("The file is empty.".to_owned());
    } else if shown == 0 {
        hints.push(format!("The file has {total} lines; there is no line {first}."));
    } else if truncated {
        result["next_offset"] = next.into();
        let of = if collector.counted { String::new() } else { " at least".to_owned() };
        hints.push(format!(
            "Lines {first} to {} of{of} {total} are shown; go on with offset={next}.",
            next - 1
        ));
    }
    if !collector.counted {
        result["total_lines_exact"] = false.into();
    }
    if cut_lines > 0 {
        result["lines_cut"] = cut_lines.into();
    }
    if page.strays > 0 {
        hints.push(format!(
            "{} bytes here are not UTF-8 and are shown as \u{fffd}; patch leaves them as they are.",
            page.strays
        ));
    }
    if !hints.is_empty() {
        result["hint"] = hints.join(" ").into();
    }
    Ok(result)
}

/// Lines as they may be shown.
struct Lines {
    lines: Vec<String>,
    strays: usize,
}

impl Lines {
    /// Masks what is secret. What opens a secret may be on a line before the
    /// ones to show, so those are looked at too.
    fn new(context: &ToolContext, collector: &Collector) -> Self {
        let plain = |line: &Vec<u8>| Text::new(line.clone());
        let before: Vec<Text> = collector.before.iter().map(plain).collect();
        let wanted: Vec<Text> = collector.lines.iter().map(plain).collect();
        let strays = wanted.iter().map(Text::strays).sum();
        let all: Vec<&str> = before.iter().chain(&wanted).map(Text::view).collect();
        let joined = all.join("\n");
        // As many lines come out as went in.
        let masked = context.redactor.redact_file(&joined);
        let shown = masked.split('\n').skip(before.len()).take(wanted.len());
        let lines = shown.map(str::to_owned).collect();
        Self { lines, strays }
    }
}
