//! Reads unified diffs, as `diff -u` and `git diff` write them.

use super::scan::{Scan, hunk_line};
use super::{Action, FilePatch, Hunk, HunkLine, ParseError};

const NO_FILE: &str = "/dev/null";

/// The numbers of a hunk: `-12,3 +12,4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) old_start: usize,
    pub(super) old_count: usize,
    pub(super) new_count: usize,
}

impl Range {
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
pub(super) fn files(scan: &mut Scan<'_>) -> Result<Vec<FilePatch>, ParseError> {
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
                files.push(FilePatch { path, action: Action::Update { move_to, hunks: vec![] } });
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
fn scan_reaches_hunks(scan: &Scan<'_>) -> bool {
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

fn file(scan: &mut Scan<'_>, old: String, new: String) -> Result<FilePatch, ParseError> {
    let mut hunks = Vec::new();
    while let Some(rest) = scan.next_after("@@") {
        let range = Range::parse(rest);
        hunks.push(hunk(scan, range)?);
    }
    if old == NO_FILE {
        return Ok(FilePatch { path: new, action: Action::Add(content(&hunks)) });
    }
    if new == NO_FILE {
        return Ok(FilePatch { path: old, action: Action::Delete });
    }
    if hunks.is_empty() && old == new {
        return Err(scan.error(format!("nothing is changed in {old}")));
    }
    let move_to = (new != old).then_some(new);
    Ok(FilePatch { path: old, action: Action::Update { move_to, hunks } })
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
fn hunk(scan: &mut Scan<'_>, range: Option<Range>) -> Result<Hunk, ParseError> {
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
