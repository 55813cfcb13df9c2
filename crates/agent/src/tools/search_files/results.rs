//! What was found, as the model reads it.

use serde_json::{Map, Value, json};
use vestal_sandbox::files::{FileError, Files};
use vestal_sandbox::{FoundMatches, Match};

use super::FileSearch;
use crate::redact::Redactor;

/// Matches asked for at once where they are only counted.
const COUNTED_AT_ONCE: usize = 5_000;

/// Most matches that are counted.
const COUNTED: usize = 100_000;

/// How results are shown.
pub(super) struct ResultFormat<'a> {
    /// Where was searched, as the model wrote it.
    pub(super) root: &'a str,
    /// Whether that is one file.
    pub(super) is_file: bool,
    pub(super) redactor: &'a Redactor,
    pub(super) line_length: usize,
}

impl ResultFormat<'_> {
    fn path(&self, found: &Match) -> String {
        if self.is_file {
            return self.root.to_owned();
        }
        let below = String::from_utf8_lossy(&found.path);
        match self.root.trim_end_matches('/') {
            "." => below.into_owned(),
            // The root itself, without its slash.
            "" => format!("/{below}"),
            root => format!("{root}/{below}"),
        }
    }

    fn text(&self, found: &Match) -> String {
        let text = String::from_utf8_lossy(&found.text);
        let text = self.redactor.redact_file(&text);
        text.chars().take(self.line_length).collect()
    }
}

/// Returns files by name.
pub(super) async fn names(
    files: &Files,
    request: &FileSearch,
    format: &ResultFormat<'_>,
) -> Result<Value, FileError> {
    let found = files.search(request.query(request.offset, request.limit)).await?;
    let paths: Vec<String> = found.matches.iter().map(|hit| format.path(hit)).collect();
    let mut result = json!({ "files": paths });
    finish(&mut result, request, paths.len(), found.more, &found);
    Ok(result)
}

pub(super) async fn lines(
    files: &Files,
    request: &FileSearch,
    format: &ResultFormat<'_>,
) -> Result<Value, FileError> {
    let found = files.search(request.query(request.offset, request.limit)).await?;
    let line = |hit: &Match| {
        let mut line =
            json!({ "path": format.path(hit), "line": hit.line, "content": format.text(hit) });
        if hit.context {
            line["context"] = true.into();
        }
        line
    };
    let matches: Vec<Value> = found.matches.iter().map(line).collect();
    let hits = found.matches.iter().filter(|hit| !hit.context).count();
    let mut result = json!({ "matches": matches });
    finish(&mut result, request, hits, found.more, &found);
    Ok(result)
}

/// Returns which files have such lines.
pub(super) async fn files_only(
    files: &Files,
    request: &FileSearch,
    format: &ResultFormat<'_>,
) -> Result<Value, FileError> {
    let enough = request.offset + request.limit + 1;
    let counted = MatchCounts::take(files, request, format, enough).await?;
    let page = counted.files.iter().skip(request.offset).take(request.limit);
    let paths: Vec<&str> = page.map(|(path, _)| path.as_str()).collect();
    let mut result = json!({ "files": paths });
    let more = counted.more || counted.files.len() > request.offset + paths.len();
    finish(&mut result, request, paths.len(), more, &counted.last);
    Ok(result)
}

/// Returns how many such lines files have.
pub(super) async fn counts(
    files: &Files,
    request: &FileSearch,
    format: &ResultFormat<'_>,
) -> Result<Value, FileError> {
    let counted = MatchCounts::take(files, request, format, usize::MAX).await?;
    let page = counted.files.iter().skip(request.offset).take(request.limit);
    let counts: Map<String, Value> =
        page.map(|(path, count)| (path.clone(), (*count).into())).collect();
    let shown = counts.len();
    let mut result = json!({ "counts": counts });
    let more = counted.more || counted.files.len() > request.offset + shown;
    finish(&mut result, request, shown, more, &counted.last);
    // What is counted are the lines, whichever files are shown.
    result["total_count"] = counted.files.iter().map(|(_, count)| count).sum::<usize>().into();
    result["total_files"] = counted.files.len().into();
    if counted.more {
        result["total_count_exact"] = false.into();
    }
    Ok(result)
}

/// Matches by file, in the order of paths.
struct MatchCounts {
    files: Vec<(String, usize)>,
    more: bool,
    last: FoundMatches,
}

impl MatchCounts {
    /// Counts matches until there are so many files.
    async fn take(
        files: &Files,
        request: &FileSearch,
        format: &ResultFormat<'_>,
        enough: usize,
    ) -> Result<Self, FileError> {
        let mut by_file: Vec<(String, usize)> = Vec::new();
        let mut counted = 0;
        loop {
            let found = files.search(request.query(counted, COUNTED_AT_ONCE)).await?;
            for hit in &found.matches {
                let path = format.path(hit);
                match by_file.last_mut() {
                    Some((last, count)) if *last == path => *count += 1,
                    _ => by_file.push((path, 1)),
                }
            }
            counted += found.matches.len();
            let is_over = counted >= COUNTED || by_file.len() >= enough || found.matches.is_empty();
            if !found.more || is_over {
                return Ok(Self { files: by_file, more: found.more, last: found });
            }
        }
    }
}

/// Adds what is the same for all results: how many, whether there are more, and
/// what was passed over.
fn finish(
    result: &mut Value,
    request: &FileSearch,
    shown: usize,
    more: bool,
    found: &FoundMatches,
) {
    let seen = request.offset + shown;
    result["total_count"] = seen.into();
    result["truncated"] = more.into();
    if more {
        result["total_count_exact"] = false.into();
        result["next_offset"] = seen.into();
        result["hint"] =
            format!("There are more results; go on with offset={seen}, or narrow the search.")
                .into();
    } else if shown == 0 && request.offset == 0 {
        result["hint"] = "Nothing found. Hidden files and what .gitignore leaves out were not \
            searched; name such a directory in `path` to search it."
            .into();
    }
    if found.unreadable > 0 {
        result["unreadable"] = found.unreadable.into();
    }
    if found.binary > 0 {
        result["binary_files_skipped"] = found.binary.into();
    }
}
