//! A file's bytes as text that can be compared and edited without losing a byte.
//!
//! The view has no byte order mark, ends lines with LF, and shows each byte that
//! is not UTF-8 as U+FFFD. Edits are made on the view and carried over to the
//! bytes, so whatever they do not touch stays exactly as it was.

use std::borrow::Cow;
use std::ops::Range;

use crate::redact::Redactor;

/// What stands in the view for a byte that is not UTF-8.
const STRAY: char = char::REPLACEMENT_CHARACTER;

/// The bytes some editors put at the start of UTF-8.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// A file and the view of it.
#[derive(Debug)]
pub(crate) struct FileText {
    bytes: Vec<u8>,
    view: String,
    /// Where view and bytes part: from here in the view, from there in the bytes.
    cuts: Vec<(usize, usize)>,
    newline: Newline,
    strays: usize,
}

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newline {
    Lf,
    Crlf,
}

/// A replacement of a piece of the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextChange {
    /// The piece, on character borders.
    pub(crate) range: Range<usize>,
    /// What takes its place, lines ended by LF.
    pub(crate) text: String,
}

/// A replacement repeats bytes that are not text, and it cannot be determined which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the file has bytes that are not UTF-8, shown as \u{fffd}, and the new text has another number of them than the \
     text it replaces; leave the characters shown as \u{fffd} out of the edit"
)]
pub(crate) struct StrayBytes;

impl FileText {
    /// Takes a file's bytes.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let mut view = String::with_capacity(bytes.len());
        let mut cuts = vec![(0, 0)];
        let (mut crlf, mut lf, mut strays) = (0_usize, 0_usize, 0);
        let mut at = 0;
        if bytes.starts_with(BOM) {
            at = BOM.len();
            cuts.push((0, at));
        }
        for chunk in bytes[at..].utf8_chunks() {
            let mut rest = chunk.valid();
            while let Some(end) = rest.find('\n') {
                let line = &rest[..end];
                let ended = at + end + 1;
                match line.strip_suffix('\r') {
                    Some(line) => {
                        crlf += 1;
                        view.push_str(line);
                        view.push('\n');
                        cuts.push((view.len(), ended));
                    }
                    None => {
                        lf += 1;
                        view.push_str(&rest[..=end]);
                    }
                }
                at = ended;
                rest = &rest[end + 1..];
            }
            view.push_str(rest);
            at += rest.len();
            for _ in chunk.invalid() {
                at += 1;
                strays += 1;
                view.push(STRAY);
                cuts.push((view.len(), at));
            }
        }
        let newline = if crlf > lf { Newline::Crlf } else { Newline::Lf };
        Self { bytes, view, cuts, newline, strays }
    }

    /// Returns the text to compare with and to show.
    pub(crate) fn view(&self) -> &str {
        &self.view
    }

    /// Returns the bytes themselves.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes, and lets the view go.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns how many bytes are not UTF-8.
    pub(crate) fn strays(&self) -> usize {
        self.strays
    }

    /// Returns how most lines end.
    pub(crate) fn newline(&self) -> Newline {
        self.newline
    }

    /// Returns the bytes with these changes made, which are in order and do not overlap.
    pub(crate) fn edited(&self, changes: &[TextChange]) -> Result<Vec<u8>, StrayBytes> {
        let mut edited = Vec::with_capacity(self.bytes.len());
        let mut from = 0;
        for TextChange { range, text } in changes {
            let removed = &self.view[range.clone()];
            // What both have in common at the ends keeps its very bytes.
            let head = common_prefix(removed, text);
            let tail = common_suffix(&removed[head..], &text[head..]);
            let (start, end) = (range.start + head, range.end - tail);
            let original = self.original(start)..self.original(end);
            edited.extend_from_slice(&self.bytes[from..original.start]);
            let inserted = &text[head..text.len() - tail];
            self.put(&mut edited, inserted, start..end)?;
            from = original.end;
        }
        edited.extend_from_slice(&self.bytes[from..]);
        Ok(edited)
    }

    /// Appends what takes the place of a piece: with its ends of lines, and its
    /// bytes that are not text.
    fn put(&self, edited: &mut Vec<u8>, text: &str, piece: Range<usize>) -> Result<(), StrayBytes> {
        let newline = self.newline_of(&piece);
        let removed = &self.view[piece.clone()];
        let mut strays = removed
            .match_indices(STRAY)
            .map(|(at, stray)| piece.start + at..piece.start + at + stray.len());
        let restore = self.strays > 0 && text.contains(STRAY);
        if restore && text.matches(STRAY).count() != strays.clone().count() {
            return Err(StrayBytes);
        }
        let mut buffer = [0; 4];
        for character in text.chars() {
            match character {
                '\n' if newline == Newline::Crlf => edited.extend_from_slice(b"\r\n"),
                STRAY if restore => {
                    let stray = strays.next().ok_or(StrayBytes)?;
                    let original = self.original(stray.start)..self.original(stray.end);
                    edited.extend_from_slice(&self.bytes[original]);
                }
                character => {
                    edited.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                }
            }
        }
        Ok(())
    }

    /// Returns how lines end in a piece, or in the file if it has none.
    fn newline_of(&self, piece: &Range<usize>) -> Newline {
        let bytes = &self.bytes[self.original(piece.start)..self.original(piece.end)];
        let ends = bytes.split(|byte| *byte == b'\n').count() - 1;
        let crlf = bytes.windows(2).filter(|pair| pair == b"\r\n").count();
        match (ends, crlf) {
            (0, _) => self.newline,
            (ends, crlf) if crlf * 2 > ends => Newline::Crlf,
            _ => Newline::Lf,
        }
    }

    /// Returns where in the bytes a place in the view is.
    fn original(&self, view: usize) -> usize {
        let after = self.cuts.partition_point(|(from, _)| *from <= view);
        let (from, to) = self.cuts[after.saturating_sub(1)];
        to + (view - from)
    }
}

/// Returns the text with its lines ended by LF.
pub(crate) fn with_lf(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

fn common_prefix(a: &str, b: &str) -> usize {
    a.char_indices()
        .zip(b.chars())
        .find(|((_, x), y)| x != y)
        .map_or_else(|| a.len().min(b.len()), |((at, _), _)| at)
}

fn common_suffix(a: &str, b: &str) -> usize {
    let pairs = a.chars().rev().zip(b.chars().rev());
    pairs.take_while(|(x, y)| x == y).map(|(x, _)| x.len_utf8()).sum()
}

/// Lines ended by LF. The end of the last one does not start another.
#[derive(Debug)]
pub(crate) struct TextLines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> TextLines<'a> {
    /// Finds the lines of a text.
    pub(crate) fn new(text: &'a str) -> Self {
        let mut starts = Vec::new();
        if !text.is_empty() {
            starts.push(0);
        }
        starts.extend(text.match_indices('\n').map(|(at, _)| at + 1).filter(|at| *at < text.len()));
        Self { text, starts }
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// Returns where a line starts; the end of the text for one behind the last.
    pub(crate) fn start(&self, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(self.text.len())
    }

    /// Returns where a line ends, before its LF.
    pub(crate) fn end(&self, line: usize) -> usize {
        let next = self.start(line + 1);
        if self.text[..next].ends_with('\n') && next > self.start(line) { next - 1 } else { next }
    }

    /// Returns a line without its end.
    pub(crate) fn get(&self, line: usize) -> &'a str {
        &self.text[self.start(line)..self.end(line)]
    }

    /// Returns the line, from 0, that a place in the text is in.
    pub(crate) fn at(&self, place: usize) -> usize {
        self.starts.partition_point(|start| *start <= place).saturating_sub(1)
    }

    /// Returns these lines.
    pub(crate) fn slice(&self, lines: Range<usize>) -> Vec<&'a str> {
        lines.map(|line| self.get(line)).collect()
    }

    /// Reports whether the last line is ended too.
    pub(crate) fn is_ended(&self) -> bool {
        self.text.ends_with('\n')
    }
}

/// Returns the lines of a piece of text: without the empty one that would
/// follow its last LF.
pub(crate) fn pieces(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    lines
}

/// Returns how many lines a text has if all of them are numbered one behind
/// the other, as reading a file shows them.
pub(in crate::tools) fn numbered_lines(text: &str) -> Option<usize> {
    let number = |line: &str| line.split_once('|')?.0.trim().parse::<u64>().ok();
    let mut last: Option<u64> = None;
    let mut count = 0;
    for line in text.lines() {
        let number = number(line)?;
        if last.is_some_and(|last| last.checked_add(1) != Some(number)) {
            return None;
        }
        last = Some(number);
        count += 1;
    }
    (count > 0).then_some(count)
}

/// Refuses a text in which a secret is masked, as reading a file shows it.
pub(in crate::tools) fn require_unmasked(name: &str, text: &str) -> Result<(), String> {
    if !Redactor::is_sentinel_in(text) {
        return Ok(());
    }
    Err(format!(
        "`{name}` holds a secret that was masked when the file was read; written like this, the \
         secret in the file would be lost. Leave that line as it is and change the others with \
         `patch`, or let a command put the secret in"
    ))
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
