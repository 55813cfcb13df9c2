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

use super::{FileAction, FilePatch, Hunk, HunkLine, ParseError};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Reads a patch: this form, or a unified diff.
pub(in crate::tools::patch) fn parse(patch: &str) -> Result<Vec<FilePatch>, ParseError> {
    let mut scan = HunkScan::new(patch);
    let is_ours = patch.lines().any(|line| {
        [BEGIN, ADD, DELETE, UPDATE].iter().any(|start| line.trim_end().starts_with(start))
    });
    let files = if is_ours { sections(&mut scan)? } else { unified_files(&mut scan)? };
    if files.is_empty() {
        return Err(scan.error(format!(
            "there is no file in it; a patch has `{UPDATE} path`, `{ADD} path` or `{DELETE} path` \
             between `{BEGIN}` and `{END}`"
        )));
    }
    Ok(files)
}

fn sections(scan: &mut HunkScan<'_>) -> Result<Vec<FilePatch>, ParseError> {
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

fn section(scan: &mut HunkScan<'_>, header: &str) -> Result<FilePatch, ParseError> {
    let named = |start: &str| header.strip_prefix(start).map(|path| path.trim().to_owned());
    let (path, action) = if let Some(path) = named(ADD) {
        (path, FileAction::Add(added(scan)?))
    } else if let Some(path) = named(DELETE) {
        (path, FileAction::Delete)
    } else if let Some(path) = named(UPDATE) {
        let path = require_path(scan, path)?;
        let move_to = match scan.next_after(MOVE) {
            Some(to) => Some(require_path(scan, to.trim().to_owned())?),
            None => None,
        };
        let hunks = hunks(scan)?;
        if hunks.is_empty() && move_to.is_none() {
            return Err(scan.error(format!("nothing is changed in {path}")));
        }
        (path, FileAction::Update { move_to, hunks })
    } else {
        return Err(scan.error(format!(
            "expected `{UPDATE} path`, `{ADD} path`, `{DELETE} path` or `{END}`, found {header:?}"
        )));
    };
    Ok(FilePatch { path: require_path(scan, path)?, action })
}

fn require_path(scan: &HunkScan<'_>, path: String) -> Result<String, ParseError> {
    if path.is_empty() { Err(scan.error("the file has no name")) } else { Ok(path) }
}

/// Reads the content of a new file.
fn added(scan: &mut HunkScan<'_>) -> Result<String, ParseError> {
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
fn hunks(scan: &mut HunkScan<'_>) -> Result<Vec<Hunk>, ParseError> {
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

fn hunk(scan: &mut HunkScan<'_>) -> Result<Hunk, ParseError> {
    let mut hunk = Hunk::default();
    while let Some(rest) = scan.next_after("@@") {
        match HunkRange::parse(rest) {
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
            mark_unended(&mut hunk);
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

/// The lines that are still to be read.
pub(super) struct HunkScan<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> HunkScan<'a> {
    /// Reads a patch, whichever way its lines end.
    pub(super) fn new(patch: &'a str) -> Self {
        let mut lines: Vec<&str> = patch.split('\n').collect();
        if lines.last() == Some(&"") {
            lines.pop();
        }
        // A carriage return belongs to a line only if not all of them have one.
        if !lines.is_empty() && lines.iter().all(|line| line.ends_with('\r')) {
            lines = lines.into_iter().filter_map(|line| line.strip_suffix('\r')).collect();
        }
        Self { lines, at: 0 }
    }

    /// Returns the next line without taking it.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.peek_at(0)
    }

    /// Returns a line further on.
    pub(super) fn peek_at(&self, ahead: usize) -> Option<&'a str> {
        self.lines.get(self.at + ahead).copied()
    }

    /// Takes the next line.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    /// Takes the next line if it starts like this, and returns the rest of it.
    pub(super) fn next_after(&mut self, start: &str) -> Option<&'a str> {
        let rest = self.peek()?.strip_prefix(start)?;
        self.at += 1;
        Some(rest)
    }

    /// Returns an error about the line taken last.
    pub(super) fn error(&self, problem: impl Into<String>) -> ParseError {
        ParseError { line: self.at.max(1), problem: problem.into() }
    }
}

/// Returns a line of a hunk; `None` if it is none. Editors and models take the
/// blank off an empty line that is kept.
pub(super) fn hunk_line(line: &str) -> Option<HunkLine> {
    let mut rest = line.chars();
    Some(match rest.next() {
        None => HunkLine::Kept(String::new()),
        Some(' ') => HunkLine::Kept(rest.as_str().to_owned()),
        Some('-') => HunkLine::Removed(rest.as_str().to_owned()),
        Some('+') => HunkLine::Added(rest.as_str().to_owned()),
        Some(_) => return None,
    })
}

const NO_FILE: &str = "/dev/null";

/// The numbers of a hunk: `-12,3 +12,4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HunkRange {
    pub(super) old_start: usize,
    pub(super) old_count: usize,
    pub(super) new_count: usize,
}

impl HunkRange {
    /// Reads what stands behind the first `@@`.
    pub(super) fn parse(rest: &str) -> Option<Self> {
        let (old, rest) = rest.trim_start().strip_prefix('-')?.split_once(' ')?;
        let new = rest.trim_start().strip_prefix('+')?;
        let new = new.split([' ', '@']).next()?;
        let (old_start, old_count) = numbers(old)?;
        let (_, new_count) = numbers(new)?;
        Some(Self { old_start, old_count, new_count })
    }
}

fn numbers(text: &str) -> Option<(usize, usize)> {
    match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

/// Remembers that the line read last has no end.
pub(super) fn mark_unended(hunk: &mut Hunk) {
    match hunk.lines.last() {
        Some(HunkLine::Kept(_)) => (hunk.old_unended, hunk.new_unended) = (true, true),
        Some(HunkLine::Removed(_)) => hunk.old_unended = true,
        Some(HunkLine::Added(_)) => hunk.new_unended = true,
        None => {}
    }
}

/// Reads all files of a diff.
pub(super) fn unified_files(scan: &mut HunkScan<'_>) -> Result<Vec<FilePatch>, ParseError> {
    let mut files = Vec::new();
    let mut rename: (Option<String>, Option<String>) = (None, None);
    while let Some(line) = scan.next() {
        if let Some(from) = line.strip_prefix("rename from ") {
            rename.0 = Some(from.trim().to_owned());
        } else if let Some(to) = line.strip_prefix("rename to ") {
            rename.1 = Some(to.trim().to_owned());
            // A file that only gets another name has no hunks.
            if !scan_reaches_hunks(scan)
                && let (Some(path), move_to) = std::mem::take(&mut rename)
            {
                files.push(FilePatch {
                    path,
                    action: FileAction::Update { move_to, hunks: vec![] },
                });
            }
        } else if let Some(old) = line.strip_prefix("--- ") {
            let Some(new) = scan.next_after("+++ ") else {
                return Err(scan.error("`--- file` is followed by `+++ file`"));
            };
            rename = (None, None);
            files.push(file(scan, name(old, "a/"), name(new, "b/"))?);
        } else if line.starts_with("@@") {
            return Err(scan.error("a change before any `--- file` and `+++ file`"));
        }
    }
    Ok(files)
}

/// Reports whether the file whose header is being read has hunks.
fn scan_reaches_hunks(scan: &HunkScan<'_>) -> bool {
    (0..)
        .map_while(|ahead| scan.peek_at(ahead))
        .take_while(|line| !line.starts_with("diff "))
        .any(|line| line.starts_with("--- "))
}

/// Returns the path of a header, without the letter that git puts before it and
/// the time that diff puts behind it.
fn name(header: &str, prefix: &str) -> String {
    let path = header.split('\t').next().unwrap_or_default().trim();
    path.strip_prefix(prefix).unwrap_or(path).to_owned()
}

fn file(scan: &mut HunkScan<'_>, old: String, new: String) -> Result<FilePatch, ParseError> {
    let mut hunks = Vec::new();
    while let Some(rest) = scan.next_after("@@") {
        let range = HunkRange::parse(rest);
        hunks.push(unified_hunk(scan, range)?);
    }
    if old == NO_FILE {
        return Ok(FilePatch { path: new, action: FileAction::Add(content(&hunks)) });
    }
    if new == NO_FILE {
        return Ok(FilePatch { path: old, action: FileAction::Delete });
    }
    if hunks.is_empty() && old == new {
        return Err(scan.error(format!("nothing is changed in {old}")));
    }
    let move_to = (new != old).then_some(new);
    Ok(FilePatch { path: old, action: FileAction::Update { move_to, hunks } })
}

/// Returns the content of a file that is all new.
fn content(hunks: &[Hunk]) -> String {
    let mut content = String::new();
    for hunk in hunks {
        for line in &hunk.lines {
            if let HunkLine::Added(line) = line {
                content.push_str(line);
                content.push('\n');
            }
        }
        if hunk.new_unended {
            content.pop();
        }
    }
    content
}

/// Reads a hunk. Its numbers tell which lines belong to it, as far as they are
/// right; lines behind them belong to it too while they look like it.
fn unified_hunk(scan: &mut HunkScan<'_>, range: Option<HunkRange>) -> Result<Hunk, ParseError> {
    let mut hunk = Hunk { old_start: range.map(|range| range.old_start), ..Hunk::default() };
    let (mut old_left, mut new_left) =
        range.map_or((0, 0), |range| (range.old_count, range.new_count));
    while let Some(line) = scan.peek() {
        if line.starts_with("\\ ") {
            scan.next();
            mark_unended(&mut hunk);
            continue;
        }
        let counted = old_left > 0 || new_left > 0;
        let next_is = |start: &str| scan.peek_at(1).is_some_and(|next| next.starts_with(start));
        let ends = line.starts_with("--- ") && next_is("+++ ");
        let sure = counted && !(ends && scan.peek_at(2).is_some_and(|it| it.starts_with("@@")));
        if !sure && (ends || line.is_empty()) {
            break;
        }
        let Some(line) = hunk_line(line) else {
            break;
        };
        scan.next();
        match &line {
            HunkLine::Kept(_) => {
                old_left = old_left.saturating_sub(1);
                new_left = new_left.saturating_sub(1);
            }
            HunkLine::Removed(_) => old_left = old_left.saturating_sub(1),
            HunkLine::Added(_) => new_left = new_left.saturating_sub(1),
        }
        hunk.lines.push(line);
    }
    if hunk.lines.is_empty() {
        return Err(scan.error("nothing is changed here"));
    }
    Ok(hunk)
}
