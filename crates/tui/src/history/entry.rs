//! A message as a line of the file.

use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::editor::Fragment;

/// Returns the line, its end included.
pub(super) fn write(entry: &Fragment) -> String {
    let (text, pastes) = entry.expanded();
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut line = json!({ "at": at, "text": text });
    if !pastes.is_empty() {
        line["pastes"] = pastes.iter().map(|range| json!([range.start, range.end])).collect();
    }
    // JSON has no end of line within a line.
    format!("{line}\n")
}

/// Returns the message of a line; nothing for a line that is none.
pub(super) fn read(line: &[u8]) -> Option<Fragment> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let text = line.get("text")?.as_str()?;
    let pastes = line.get("pastes").and_then(Value::as_array);
    let pastes: Vec<_> = pastes.into_iter().flatten().filter_map(range).collect();
    let entry = Fragment::with_pastes(text, &pastes);
    (!entry.is_blank()).then_some(entry)
}

fn range(pair: &Value) -> Option<Range<usize>> {
    let offset = |at| usize::try_from(pair.get(at)?.as_u64()?).ok();
    let range = offset(0)?..offset(1)?;
    (range.start < range.end).then_some(range)
}
