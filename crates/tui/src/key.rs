//! Keys and other input of a terminal, decoded from its bytes.

pub(crate) mod clipboard;
mod sequences;

use std::time::Duration;

use termina::Event;
use termina::event::{KeyCode as Code, KeyEvent, KeyEventKind, Modifiers as EventModifiers};

use crate::key::clipboard::ClipboardReply;
use crate::key::sequences::{PasteBuffer, SequenceEnd, frame};
use crate::text::Size;

/// Input of the user or the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalInput {
    /// A key was pressed.
    Key(KeyPress),
    /// Text was pasted, ends of lines as `\n`.
    Paste(String),
    /// The terminal has another size.
    Resized(Size),
    /// The window gained or lost the focus.
    Focused(bool),
    /// The terminal answers a question about its clipboard.
    Clipboard(ClipboardReply),
    /// The terminal is gone: nothing will come any more.
    Closed,
}

/// A key, with what was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPress {
    /// The key.
    pub code: KeyCode,
    /// What was held.
    pub modifiers: Modifiers,
}

/// The keys that mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCode {
    /// A character, as typed.
    Char(char),
    /// Enter.
    Enter,
    /// Tab.
    Tab,
    /// Shift and Tab.
    BackTab,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Escape.
    Escape,
    /// An arrow.
    Up,
    /// An arrow.
    Down,
    /// An arrow.
    Left,
    /// An arrow.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// A function key.
    F(u8),
}

/// What is held while a key is pressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// Control.
    pub control: bool,
    /// Alt, or Option, or Escape pressed before.
    pub alt: bool,
    /// Shift, if the terminal reports it.
    pub shift: bool,
}

impl KeyPress {
    /// Returns a key without anything held.
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, modifiers: Modifiers { control: false, alt: false, shift: false } }
    }

    /// Returns a character with Control held.
    pub const fn control(c: char) -> Self {
        let modifiers = Modifiers { control: true, alt: false, shift: false };
        Self { code: KeyCode::Char(c), modifiers }
    }
}

/// How long a lone Escape may still be the beginning of a sequence.
const ESCAPE_TIMEOUT: Duration = Duration::from_millis(25);
/// How long the rest of a sequence that has started may take over a slow line.
const SEQUENCE_TIMEOUT: Duration = Duration::from_millis(250);

/// Decodes what a terminal sends, however it is cut into pieces.
#[derive(Debug, Default)]
pub struct KeyDecoder {
    /// The beginning of something.
    begun: Vec<u8>,
    paste: Option<PasteBuffer>,
}

impl KeyDecoder {
    /// Decodes bytes and appends the inputs they contain.
    pub fn feed(&mut self, bytes: &[u8], inputs: &mut Vec<TerminalInput>) {
        match &mut self.paste {
            Some(paste) => paste.feed(bytes),
            None => self.begun.extend_from_slice(bytes),
        }
        loop {
            let goes_on = match &mut self.paste {
                Some(paste) => match paste.ended(inputs) {
                    Some(rest) => {
                        self.leave_paste(rest);
                        true
                    }
                    None => false,
                },
                None => self.decode(inputs),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Returns after how much silence [`KeyDecoder::silence`] must be called.
    pub fn timeout(&self) -> Option<Duration> {
        if let Some(paste) = &self.paste {
            return paste.timeout();
        }
        match self.begun[..] {
            [] => None,
            [0x1b] | [0x1b, 0x1b] => Some(ESCAPE_TIMEOUT),
            _ => Some(SEQUENCE_TIMEOUT),
        }
    }

    /// Handles silence: the start of a sequence was a key of its own or is broken, and a
    /// paste may never end.
    pub fn silence(&mut self, inputs: &mut Vec<TerminalInput>) {
        if let Some(paste) = &mut self.paste {
            let Some(keys) = paste.silence(inputs) else { return };
            self.leave_paste(keys);
            self.decode(inputs);
        }
        let begun = std::mem::take(&mut self.begun);
        match begun[..] {
            [0x1b] => inputs.push(TerminalInput::Key(KeyPress::plain(KeyCode::Escape))),
            [0x1b, 0x1b] => {
                inputs
                    .extend([(); 2].map(|()| TerminalInput::Key(KeyPress::plain(KeyCode::Escape))));
            }
            [0x1b, byte] if byte.is_ascii_graphic() => {
                inputs.push(TerminalInput::Key(alt(char::from(byte))));
            }
            _ => {}
        }
    }

    /// Continues after a paste.
    fn leave_paste(&mut self, rest: Vec<u8>) {
        self.begun = rest;
        self.paste = None;
    }

    /// Decodes as much as there is; returns whether a paste has started.
    fn decode(&mut self, inputs: &mut Vec<TerminalInput>) -> bool {
        let mut at = 0;
        let mut begins_paste = false;
        while at < self.begun.len() && !begins_paste {
            let rest = &self.begun[at..];
            match frame(rest) {
                SequenceEnd::Part => break,
                // The sequence itself is decoded next, with Alt.
                SequenceEnd::Alt => match frame(&rest[1..]) {
                    // What is not a key cannot be pressed with Alt: Escape was one of its own.
                    SequenceEnd::Whole(length) if is_terminal_report(&rest[1..=length]) => {
                        inputs.push(TerminalInput::Key(KeyPress::plain(KeyCode::Escape)));
                        at += 1;
                    }
                    SequenceEnd::Whole(length) => {
                        inputs.extend(one(&rest[1..=length]).map(with_alt));
                        at += length + 1;
                    }
                    SequenceEnd::Alt | SequenceEnd::Part => break,
                },
                SequenceEnd::Whole(length) if &rest[..length] == sequences::PASTE_BEGIN => {
                    begins_paste = true;
                    at += length;
                }
                SequenceEnd::Whole(length) => {
                    inputs.extend(one(&rest[..length]));
                    at += length;
                }
            }
        }
        self.begun.drain(..at);
        if begins_paste {
            self.paste = Some(PasteBuffer::new(std::mem::take(&mut self.begun)));
        }
        begins_paste
    }
}

/// Returns whether a sequence comes from the terminal itself: the start of a paste, or a
/// change of focus.
fn is_terminal_report(bytes: &[u8]) -> bool {
    bytes == sequences::PASTE_BEGIN || matches!(bytes, b"\x1b[I" | b"\x1b[O")
}

/// Decodes one whole sequence.
fn one(bytes: &[u8]) -> Option<TerminalInput> {
    if let Some(reply) = ClipboardReply::read(bytes) {
        return Some(TerminalInput::Clipboard(reply));
    }
    if let [0x1b, b']' | b'P' | b'_', _, ..] = bytes {
        // An unsolicited answer of the terminal.
        return None;
    }
    let mut parser = termina::Parser::default();
    let same = xterm_as_kitty(bytes).or_else(|| latin(bytes));
    parser.parse(same.as_deref().unwrap_or(bytes), false);
    match parser.pop()? {
        Event::Key(key) => key_of_event(key, bytes).map(TerminalInput::Key),
        Event::FocusIn => Some(TerminalInput::Focused(true)),
        Event::FocusOut => Some(TerminalInput::Focused(false)),
        _ => None,
    }
}

/// Converts xterm's form of a modified key (`CSI 27 ; held ; key ~`) to kitty's (`CSI key ;
/// held u`).
fn xterm_as_kitty(bytes: &[u8]) -> Option<Vec<u8>> {
    let numbers = bytes.strip_prefix(b"\x1b[27;")?.strip_suffix(b"~")?;
    let (held, key) = std::str::from_utf8(numbers).ok()?.split_once(';')?;
    Some(format!("\x1b[{key};{held}u").into_bytes())
}

/// Returns a shortcut that was pressed on a keyboard of another script
/// (`CSI key : shifted : latin ; held u`) as the one that its keys have on a latin
/// one: there is no other way to say Ctrl-C on it.
fn latin(bytes: &[u8]) -> Option<Vec<u8>> {
    let numbers = std::str::from_utf8(bytes.strip_prefix(b"\x1b[")?.strip_suffix(b"u")?).ok()?;
    let (keys, held) = numbers.split_once(';')?;
    let latin = keys.split(':').nth(2).filter(|key| !key.is_empty())?;
    let mask = held.split([':', ';']).next()?.parse::<u16>().ok()?.checked_sub(1)?;
    let is_shortcut = mask & 0b110 != 0;
    is_shortcut.then(|| format!("\x1b[{latin};{held}u").into_bytes())
}

/// Returns a key as it is meant: a capital letter is itself, not a letter with
/// Shift.
fn key_of_event(
    KeyEvent { code, kind, modifiers, .. }: KeyEvent,
    bytes: &[u8],
) -> Option<KeyPress> {
    let pressed = matches!(kind, KeyEventKind::Press | KeyEventKind::Repeat);
    // What is pressed together with these is meant for a window manager.
    if !pressed || modifiers.intersects(EventModifiers::SUPER | EventModifiers::HYPER) {
        return None;
    }
    let mut held = Modifiers {
        control: modifiers.contains(EventModifiers::CONTROL),
        alt: modifiers.intersects(EventModifiers::ALT | EventModifiers::META),
        shift: modifiers.contains(EventModifiers::SHIFT),
    };
    let code = match code {
        Code::Char(c) => KeyCode::Char(character(c, &mut held, bytes)?),
        Code::Enter => KeyCode::Enter,
        Code::Tab => KeyCode::Tab,
        Code::BackTab => {
            held.shift = false;
            KeyCode::BackTab
        }
        Code::Backspace => KeyCode::Backspace,
        Code::Delete => KeyCode::Delete,
        Code::Escape => KeyCode::Escape,
        Code::Up => KeyCode::Up,
        Code::Down => KeyCode::Down,
        Code::Left => KeyCode::Left,
        Code::Right => KeyCode::Right,
        Code::Home => KeyCode::Home,
        Code::End => KeyCode::End,
        Code::PageUp => KeyCode::PageUp,
        Code::PageDown => KeyCode::PageDown,
        Code::Function(number) => KeyCode::F(number),
        _ => return None,
    };
    Some(KeyPress { code, modifiers: held })
}

fn character(c: char, held: &mut Modifiers, bytes: &[u8]) -> Option<char> {
    let spelled_out = bytes.starts_with(b"\x1b[");
    // Kitty encodes keys without a character as private-use characters.
    if spelled_out && matches!(c, '\u{e000}'..='\u{f8ff}') {
        return None;
    }
    if held.control {
        // The last four control characters, as they are called.
        return Some(match c {
            '4'..='7' if !spelled_out => ['\\', ']', '^', '_'][usize::from(c as u8 - b'4')],
            c => c.to_ascii_lowercase(),
        });
    }
    let shifted = held.shift;
    held.shift = false;
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) if shifted => Some(upper),
        _ => Some(c),
    }
}

fn alt(c: char) -> KeyPress {
    KeyPress { code: KeyCode::Char(c), modifiers: Modifiers { alt: true, ..Modifiers::default() } }
}

fn with_alt(input: TerminalInput) -> TerminalInput {
    match input {
        TerminalInput::Key(mut key) => {
            key.modifiers.alt = true;
            TerminalInput::Key(key)
        }
        other => other,
    }
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
