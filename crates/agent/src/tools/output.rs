//! Output of commands on its way to the model and to front ends.

use std::time::{Duration, Instant};

use crate::redact;
use crate::tool::ToolContext;

/// Takes what a command prints: made plain, told as it comes, and kept within
/// bounds.
pub(super) struct OutputBuffer<'a> {
    plain: PlainText,
    kept: HeadTail,
    live: LiveOutput<'a>,
    piece: String,
}

impl<'a> OutputBuffer<'a> {
    /// Returns a place for output, of which at most `limit` bytes are kept.
    pub(super) fn new(context: &'a ToolContext, limit: usize) -> Self {
        Self {
            plain: PlainText::default(),
            kept: HeadTail::new(limit),
            live: LiveOutput::new(context),
            piece: String::new(),
        }
    }

    /// Takes what came next.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.piece.clear();
        self.plain.push(bytes, &mut self.piece);
        self.kept.push(&self.piece);
        self.live.push(&self.piece);
    }

    /// Notes that bytes are missing here.
    pub(super) fn gap(&mut self, bytes: u64) {
        let line = format!("\n[… {bytes} bytes were not kept by the sandbox …]\n");
        self.kept.push(&line);
        self.live.push(&line);
    }

    /// Returns what was kept.
    pub(super) fn finish(mut self) -> KeptOutput {
        self.piece.clear();
        self.plain.finish(&mut self.piece);
        self.kept.push(&self.piece);
        self.live.push(&self.piece);
        self.live.finish();
        self.kept.finish()
    }
}

/// How far from the cut a line may begin for the cut to be moved there.
const LINE_SEARCH: usize = 1024;

/// Keeps the beginning and the end of a text, and counts what lies between.
#[derive(Debug)]
pub(crate) struct HeadTail {
    head: String,
    head_limit: usize,
    tail: Vec<u8>,
    tail_limit: usize,
    total: u64,
}

/// What was kept of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptOutput {
    /// The text; where something is left out, a line says how much.
    pub(crate) text: String,
    /// Bytes there were.
    pub(crate) total: u64,
    /// Bytes left out.
    pub(crate) omitted: u64,
}

impl HeadTail {
    /// Keeps at most this many bytes, two fifths of them from the beginning.
    pub(crate) fn new(limit: usize) -> Self {
        let head_limit = limit / 5 * 2;
        Self {
            head: String::new(),
            head_limit,
            tail: Vec::new(),
            tail_limit: limit - head_limit,
            total: 0,
        }
    }

    /// Takes what comes next.
    pub(crate) fn push(&mut self, text: &str) {
        self.total += text.len() as u64;
        let mut rest = text;
        if self.tail.is_empty() && self.head.len() < self.head_limit {
            let cut = text.floor_char_boundary(self.head_limit - self.head.len());
            self.head.push_str(&text[..cut]);
            rest = &text[cut..];
        }
        // Only the end of a piece can be needed, and the buffer is cut back
        // only when it is twice too long, so each byte is moved about once.
        let needed = rest.len().saturating_sub(self.tail_limit);
        self.tail.extend_from_slice(&rest.as_bytes()[needed..]);
        if self.tail.len() > 2 * self.tail_limit {
            self.tail.drain(..self.tail.len() - self.tail_limit);
        }
    }

    /// Returns what was kept.
    pub(crate) fn finish(self) -> KeptOutput {
        let Self { mut head, tail, tail_limit, total, .. } = self;
        let is_continuation = |byte: &u8| byte & 0xc0 == 0x80;
        let mut start = tail.len().saturating_sub(tail_limit);
        start += tail[start..].iter().take_while(|byte| is_continuation(byte)).count();
        let mut tail = String::from_utf8_lossy(&tail[start..]).into_owned();
        let mut omitted = total - (head.len() + tail.len()) as u64;
        if omitted > 0 {
            if let Some(end) = head.rfind('\n').filter(|end| head.len() - end <= LINE_SEARCH) {
                head.truncate(end + 1);
            }
            if let Some(end) = tail.find('\n').filter(|end| *end < LINE_SEARCH.min(tail.len() - 1))
            {
                tail.drain(..=end);
            }
            omitted = total - (head.len() + tail.len()) as u64;
            if !head.is_empty() && !head.ends_with('\n') {
                head.push('\n');
            }
            let marker = format!("[… {omitted} of {total} bytes left out here …]\n");
            head.push_str(&marker);
        }
        head.push_str(&tail);
        KeptOutput { text: head, total, omitted }
    }
}

/// Characters of a control string after which it is taken for an accident, as
/// when a binary file is printed: what follows is text again.
const LONGEST_STRING: usize = 4096;

/// Turns what a command prints into text without escape sequences and control
/// characters. Bytes that are not UTF-8 become U+FFFD. Pieces may be cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct PlainText {
    /// The beginning of a character whose rest has not come.
    partial: Vec<u8>,
    state: EscapeState,
}

/// Where in an escape sequence (ECMA-48) the text is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum EscapeState {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate: up to a final character.
    Intermediate,
    /// In a control sequence: up to a final character.
    Sequence,
    /// In a control string, this far: up to its terminator.
    String(usize),
    /// In a control string, after ESC.
    StringEscape(usize),
}

impl PlainText {
    /// Adds the plain text of a piece to `out`.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut String) {
        let joined;
        let bytes = if self.partial.is_empty() {
            bytes
        } else {
            joined = [&self.partial, bytes].concat();
            self.partial.clear();
            &joined
        };
        let mut rest = bytes.utf8_chunks().peekable();
        while let Some(chunk) = rest.next() {
            self.text(chunk.valid(), out);
            let invalid = chunk.invalid();
            let may_go_on = rest.peek().is_none()
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if may_go_on {
                self.partial.extend_from_slice(invalid);
            } else if !invalid.is_empty() {
                self.text("\u{fffd}", out);
            }
        }
    }

    /// Adds what is left when no more will come.
    pub(crate) fn finish(&mut self, out: &mut String) {
        if !self.partial.is_empty() {
            self.partial.clear();
            self.text("\u{fffd}", out);
        }
    }

    fn text(&mut self, mut text: &str, out: &mut String) {
        while !text.is_empty() {
            if self.state == EscapeState::Text {
                let plain = text.find(is_control).unwrap_or(text.len());
                let (before, after) = text.split_at(plain);
                out.push_str(before);
                text = after;
            }
            let mut characters = text.chars();
            if let Some(character) = characters.next() {
                self.state = self.state.after(character, out);
                text = characters.as_str();
            }
        }
    }
}

impl EscapeState {
    /// Returns the state after a character, having added it if it is text.
    fn after(self, character: char, out: &mut String) -> Self {
        // These end whatever is under way.
        if matches!(character, '\u{18}' | '\u{1a}') {
            return Self::Text;
        }
        match self {
            Self::Text => match character {
                '\u{1b}' => Self::Escape,
                '\u{9b}' => Self::Sequence,
                '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => Self::String(0),
                _ if is_control(character) => Self::Text,
                _ => {
                    out.push(character);
                    Self::Text
                }
            },
            Self::Escape => match character {
                '\u{1b}' => Self::Escape,
                '[' => Self::Sequence,
                ']' | 'P' | 'X' | '^' | '_' => Self::String(0),
                ' '..='/' => Self::Intermediate,
                '0'..='~' => Self::Text,
                _ => Self::Text.after(character, out),
            },
            Self::Intermediate => match character {
                ' '..='/' => Self::Intermediate,
                '0'..='~' => Self::Text,
                _ => Self::Text.after(character, out),
            },
            Self::Sequence => match character {
                ' '..='?' => Self::Sequence,
                '@'..='~' => Self::Text,
                _ => Self::Text.after(character, out),
            },
            Self::String(length) | Self::StringEscape(length) => match character {
                '\u{07}' | '\u{9c}' => Self::Text,
                '\u{1b}' => Self::StringEscape(length),
                '\\' if matches!(self, Self::StringEscape(_)) => Self::Text,
                // No string that a terminal is meant to act on goes over a line.
                '\n' => Self::Text.after(character, out),
                _ if length >= LONGEST_STRING => Self::Text,
                _ => Self::String(length + 1),
            },
        }
    }
}

/// Reports whether a character is one that text has no use for.
fn is_control(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t' | '\r')
}

/// Nobody reads faster than [`SHARE`] bytes in this time.
const WINDOW: Duration = Duration::from_millis(100);

/// Bytes told in each window.
const SHARE: usize = 8 << 10;

/// Bytes of what was passed over that are shown after all when there is time.
const REST: usize = 2 << 10;

/// Reports what comes as it comes, secrets masked, and no faster than anybody
/// can watch. What is passed over costs next to nothing: secrets are looked
/// for only in what is shown.
pub(crate) struct LiveOutput<'a> {
    context: &'a ToolContext,
    redacting: redact::RedactingStream,
    window: Instant,
    spent: usize,
    passed_over: Option<HeadTail>,
}

impl<'a> LiveOutput<'a> {
    /// Returns a live for the output of a call.
    pub(crate) fn new(context: &'a ToolContext) -> Self {
        Self {
            context,
            redacting: context.redactor.stream(),
            window: Instant::now(),
            spent: 0,
            passed_over: None,
        }
    }

    /// Reports what comes next, or keeps the end of it for when there is time.
    pub(crate) fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.window.elapsed() >= WINDOW {
            self.window = Instant::now();
            self.spent = 0;
            self.catch_up();
        }
        if let Some(passed_over) = &mut self.passed_over {
            passed_over.push(text);
            return;
        }
        let room = SHARE.saturating_sub(self.spent);
        if text.len() <= room {
            self.spent += text.len();
            self.show(text);
            return;
        }
        // A secret is not cut in two where lines end.
        let cut = text.floor_char_boundary(room);
        let cut = text[..cut].rfind('\n').map_or(cut, |end| end + 1);
        let (now, later) = text.split_at(cut);
        self.spent = SHARE;
        self.show(now);
        self.flush();
        self.passed_over.get_or_insert_with(|| HeadTail::new(REST)).push(later);
    }

    /// Reports what is left.
    pub(crate) fn finish(mut self) {
        self.catch_up();
        self.flush();
    }

    fn show(&mut self, text: &str) {
        let text = self.redacting.push(text);
        self.emit(text);
    }

    /// Reports what was held back because it might have been the beginning of a
    /// secret.
    fn flush(&mut self) {
        let stream = std::mem::replace(&mut self.redacting, self.context.redactor.stream());
        self.emit(stream.finish());
    }

    fn catch_up(&mut self) {
        if let Some(passed_over) = self.passed_over.take() {
            let text = passed_over.finish().text;
            self.spent += text.len();
            self.show(&text);
        }
    }

    fn emit(&self, text: String) {
        if !text.is_empty() {
            self.context.emit_output(text);
        }
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
