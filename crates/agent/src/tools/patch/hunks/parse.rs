//! Reads patches in the form
//!
//! ```text
//! *** Begin Patch
//! *** Update File: src/a.rs
//! @@ fn main() {
//!  kept
//! -removed
//! +added
//! *** End Patch
//! ```

use super::scan::{Scan, hunk_line};
use super::unified::{self, Range};
use super::{Action, FilePatch, Hunk, HunkLine, ParseError};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Reads a patch: this form, or a unified diff.
pub(in crate::tools::patch) fn parse(patch: &str) -> Result<Vec<FilePatch>, ParseError> {
    let mut scan = Scan::new(patch);
    let is_ours = patch.lines().any(|line| {
        [BEGIN, ADD, DELETE, UPDATE].iter().any(|start| line.trim_end().starts_with(start))
    });
    let files = if is_ours { sections(&mut scan)? } else { unified::files(&mut scan)? };
    if files.is_empty() {
        return Err(scan.error(format!(
            "there is no file in it; a patch has `{UPDATE} path`, `{ADD} path` or `{DELETE} path` \
             between `{BEGIN}` and `{END}`"
        )));
    }
    Ok(files)
}

fn sections(scan: &mut Scan<'_>) -> Result<Vec<FilePatch>, ParseError> {
    let mut files = Vec::new();
    // What comes before the patch is how it was wrapped.
    while scan.peek().is_some_and(|line| !line.starts_with("*** ")) {
        scan.next();
    }
    while let Some(line) = scan.next() {
        let header = line.trim_end();
        if header == BEGIN || header.is_empty() {
            continue;
        }
        if header == END {
            break;
        }
        files.push(section(scan, header)?);
    }
    Ok(files)
}

fn section(scan: &mut Scan<'_>, header: &str) -> Result<FilePatch, ParseError> {
    let named = |start: &str| header.strip_prefix(start).map(|path| path.trim().to_owned());
    let (path, action) = if let Some(path) = named(ADD) {
        (path, Action::Add(added(scan)?))
    } else if let Some(path) = named(DELETE) {
        (path, Action::Delete)
    } else if let Some(path) = named(UPDATE) {
        let path = demand_path(scan, path)?;
        let move_to = match scan.next_after(MOVE) {
            Some(to) => Some(demand_path(scan, to.trim().to_owned())?),
            None => None,
        };
        let hunks = hunks(scan)?;
        if hunks.is_empty() && move_to.is_none() {
            return Err(scan.error(format!("nothing is changed in {path}")));
        }
        (path, Action::Update { move_to, hunks })
    } else {
        return Err(scan.error(format!(
            "expected `{UPDATE} path`, `{ADD} path`, `{DELETE} path` or `{END}`, found {header:?}"
        )));
    };
    Ok(FilePatch { path: demand_path(scan, path)?, action })
}

fn demand_path(scan: &Scan<'_>, path: String) -> Result<String, ParseError> {
    if path.is_empty() { Err(scan.error("the file has no name")) } else { Ok(path) }
}

/// Reads the content of a new file.
fn added(scan: &mut Scan<'_>) -> Result<String, ParseError> {
    let mut content = String::new();
    while let Some(line) = scan.peek() {
        if line.starts_with("*** ") {
            break;
        }
        scan.next();
        match hunk_line(line) {
            Some(HunkLine::Added(line)) => {
                content.push_str(&line);
                content.push('\n');
            }
            // An empty line between sections, or one whose sign was forgotten.
            Some(HunkLine::Kept(blank)) if blank.is_empty() => {
                let goes_on = scan.peek().is_some_and(|next| !next.starts_with("*** "));
                if goes_on {
                    content.push('\n');
                }
            }
            _ => return Err(scan.error("each line of a new file starts with `+`")),
        }
    }
    Ok(content)
}

/// Reads the hunks of a file.
fn hunks(scan: &mut Scan<'_>) -> Result<Vec<Hunk>, ParseError> {
    let mut hunks = Vec::new();
    while let Some(line) = scan.peek() {
        if line.trim_end() == END_OF_FILE {
            scan.next();
            continue;
        }
        if line.starts_with("*** ") {
            break;
        }
        if line.is_empty() {
            // Empty lines before a hunk or a section separate them.
            let mut ahead = 0;
            while scan.peek_at(ahead).is_some_and(str::is_empty) {
                ahead += 1;
            }
            let next = scan.peek_at(ahead);
            if next.is_none_or(|line| line.starts_with("*** ") || line.starts_with("@@")) {
                for _ in 0..ahead {
                    scan.next();
                }
                continue;
            }
        }
        hunks.push(hunk(scan)?);
    }
    Ok(hunks)
}

fn hunk(scan: &mut Scan<'_>) -> Result<Hunk, ParseError> {
    let mut hunk = Hunk::default();
    while let Some(rest) = scan.next_after("@@") {
        match Range::parse(rest) {
            Some(range) => hunk.old_start = Some(range.old_start),
            None => {
                let anchor = rest.trim_end().strip_suffix("@@").unwrap_or(rest);
                let anchor = anchor.strip_prefix(' ').unwrap_or(anchor).trim_end();
                if !anchor.trim().is_empty() {
                    hunk.anchors.push(anchor.to_owned());
                }
            }
        }
    }
    while let Some(line) = scan.peek() {
        if line.trim_end() == END_OF_FILE {
            scan.next();
            hunk.at_end = true;
            break;
        }
        if line.starts_with("@@") || line.starts_with("*** ") {
            break;
        }
        scan.next();
        if line.starts_with("\\ ") {
            unified::mark_unended(&mut hunk);
            continue;
        }
        let Some(line) = hunk_line(line) else {
            return Err(scan.error(format!(
                "each line of a change starts with a space (kept), `-` (removed) or `+` (added), \
                 found {line:?}"
            )));
        };
        hunk.lines.push(line);
    }
    // Empty lines before the next section separate it and are not meant.
    let ends_section = scan.peek().is_none_or(|line| line.starts_with("*** "));
    while ends_section && !hunk.at_end && is_unsigned_blank(hunk.lines.last()) {
        hunk.lines.pop();
    }
    if hunk.lines.is_empty() {
        return Err(scan.error("nothing is changed here; `@@` is followed by lines with signs"));
    }
    Ok(hunk)
}

fn is_unsigned_blank(line: Option<&HunkLine>) -> bool {
    matches!(line, Some(HunkLine::Kept(text)) if text.is_empty())
}
