//! Words of the shell, before anything is expanded.

use super::scan::{self, Open};

/// A word: what stands between two blanks, quotes taken off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) parts: Vec<Part>,
}

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Text that stands for itself, but for wildcards, braces and `~` where it is not quoted.
    Text {
        /// The text.
        text: String,
        /// Whether it was quoted or escaped.
        quoted: bool,
    },
    /// The value of a variable.
    Variable {
        /// Its name.
        name: String,
        /// What stands for it where it has none.
        fallback: Option<String>,
        /// Whether it stays one word.
        quoted: bool,
    },
    /// What a command prints.
    Command {
        /// The command.
        body: String,
        /// Whether it stays one word.
        quoted: bool,
    },
    /// A pipe to or from a command, as a file.
    Process {
        /// The command.
        body: String,
    },
    /// Parameters of a script or function, of which a command line has none.
    Parameters,
    /// Something whose value is not worked out, and the commands that run in it.
    Opaque {
        /// Those commands.
        bodies: Vec<String>,
    },
}

/// Text ends before it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unfinished;

impl Word {
    /// Returns the text if it is nothing but that, unquoted: what could be a reserved word.
    pub(super) fn bare(&self) -> Option<&str> {
        match &self.parts[..] {
            [Part::Text { text, quoted: false }] => Some(text),
            _ => None,
        }
    }

    /// Returns the name if the word is an assignment that ends with its `=`.
    pub(super) fn ends_as_assignment(&self) -> bool {
        matches!(&self.parts[..], [Part::Text { text, quoted: false }]
            if text.strip_suffix('=').is_some_and(|name| is_name(name.trim_end_matches('+'))))
    }

    fn push_text(&mut self, more: &str, is_quoted: bool) {
        if let Some(Part::Text { text, quoted }) = self.parts.last_mut()
            && *quoted == is_quoted
        {
            text.push_str(more);
            return;
        }
        self.parts.push(Part::Text { text: more.to_owned(), quoted: is_quoted });
    }
}

/// Reports whether a text can name a variable.
pub(super) fn is_name(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    first && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reads the word at `from` and returns it with where it ends.
pub(super) fn read(text: &str, from: usize) -> Result<(Word, usize), Unfinished> {
    let bytes = text.as_bytes();
    let mut word = Word::default();
    let mut at = from;
    while at < bytes.len() {
        let next = bytes.get(at + 1).copied();
        match bytes[at] {
            b'<' | b'>' if next == Some(b'(') => {
                let end = scan::close(text, at + 2, Open::Parenthesis).ok_or(Unfinished)?;
                word.parts.push(Part::Process { body: text[at + 2..end].to_owned() });
                at = end + 1;
            }
            b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')' => break,
            b'\'' => {
                let end = scan::find(bytes, at + 1, b'\'').ok_or(Unfinished)?;
                word.push_text(&text[at + 1..end], true);
                at = end + 1;
            }
            b'"' => {
                let end = scan::close(text, at + 1, Open::Quote).ok_or(Unfinished)?;
                quoted(&mut word, &text[at + 1..end])?;
                at = end + 1;
            }
            b'\\' if next == Some(b'\n') => at += 2,
            b'\\' => {
                let length = scan::char_len(text, at + 1);
                word.push_text(&text[at + 1..at + 1 + length], true);
                at += 1 + length;
            }
            b'$' if next == Some(b'\'') => {
                let end = scan::ansi_end(bytes, at + 2).ok_or(Unfinished)?;
                word.push_text(&unescape(&text[at + 2..end]), true);
                at = end + 1;
            }
            // `$"…"` is a translated `"…"`.
            b'$' if next == Some(b'"') => at += 1,
            b'$' | b'`' => at = expansion(&mut word, text, at, false)?,
            _ => {
                let length = scan::char_len(text, at).max(1);
                word.push_text(&text[at..at + length], false);
                at += length;
            }
        }
    }
    Ok((word, at))
}

/// Reads what stands between double quotes.
fn quoted(word: &mut Word, text: &str) -> Result<(), Unfinished> {
    // Even an empty one makes a word.
    word.push_text("", true);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if bytes.get(at + 1) == Some(&b'\n') => at += 2,
            b'\\' if matches!(bytes.get(at + 1), Some(b'$' | b'`' | b'"' | b'\\')) => {
                word.push_text(&text[at + 1..at + 2], true);
                at += 2;
            }
            b'$' | b'`' => at = expansion(word, text, at, true)?,
            _ => {
                let length = scan::char_len(text, at).max(1);
                word.push_text(&text[at..at + length], true);
                at += length;
            }
        }
    }
    Ok(())
}

/// Reads what begins with `$` or a backtick and returns where it ends.
fn expansion(word: &mut Word, text: &str, at: usize, quoted: bool) -> Result<usize, Unfinished> {
    let bytes = text.as_bytes();
    if bytes[at] == b'`' {
        let end = scan::close(text, at + 1, Open::Backtick).ok_or(Unfinished)?;
        // Within backticks a backslash hides what would end them.
        let body = text[at + 1..end].replace("\\`", "`").replace("\\$", "$");
        word.parts.push(Part::Command { body, quoted });
        return Ok(end + 1);
    }
    let Some(&next) = bytes.get(at + 1) else {
        word.push_text("$", quoted);
        return Ok(at + 1);
    };
    match next {
        b'(' => {
            let end = scan::close(text, at + 2, Open::Parenthesis).ok_or(Unfinished)?;
            let body = &text[at + 2..end];
            let part = match body.strip_prefix('(') {
                Some(sum) if body.ends_with(')') => Part::Opaque { bodies: substitutions(sum) },
                _ => Part::Command { body: body.to_owned(), quoted },
            };
            word.parts.push(part);
            Ok(end + 1)
        }
        b'{' => {
            let end = scan::close(text, at + 2, Open::Brace).ok_or(Unfinished)?;
            word.parts.push(braced(&text[at + 2..end], quoted));
            Ok(end + 1)
        }
        b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
            let rest = &bytes[at + 1..];
            let length = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_');
            let end = at + 1 + length.count();
            let name = text[at + 1..end].to_owned();
            word.parts.push(Part::Variable { name, fallback: None, quoted });
            Ok(end)
        }
        b'@' | b'*' | b'0'..=b'9' => {
            word.parts.push(Part::Parameters);
            Ok(at + 2)
        }
        b'#' | b'?' | b'$' | b'!' | b'-' => {
            word.parts.push(Part::Opaque { bodies: Vec::new() });
            Ok(at + 2)
        }
        _ => {
            word.push_text("$", quoted);
            Ok(at + 1)
        }
    }
}

/// Reads what stands between `${` and `}`.
fn braced(body: &str, quoted: bool) -> Part {
    let length = body.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    let (name, rest) = body.split_at(length);
    let fallback = [":-", "-", ":=", "="].iter().find_map(|operator| rest.strip_prefix(operator));
    let plain = fallback.filter(|text| !text.contains(['$', '`', '\'', '"', '\\']));
    if is_name(name) && (rest.is_empty() || plain.is_some()) {
        let fallback = plain.map(str::to_owned);
        return Part::Variable { name: name.to_owned(), fallback, quoted };
    }
    if body == "@" || body == "*" {
        return Part::Parameters;
    }
    Part::Opaque { bodies: substitutions(body) }
}

/// Returns the commands that run in a text in which only they matter.
pub(super) fn substitutions(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut bodies = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (from, open) = match bytes[at] {
            b'\\' => {
                at += 1 + scan::char_len(text, at + 1);
                continue;
            }
            b'`' => (at + 1, Open::Backtick),
            b'$' if bytes.get(at + 1) == Some(&b'(') => (at + 2, Open::Parenthesis),
            _ => {
                at += 1;
                continue;
            }
        };
        match scan::close(text, from, open) {
            Some(end) => {
                bodies.push(text[from..end].to_owned());
                at = end + 1;
            }
            None => {
                // The rest is what would run if it were ever closed.
                bodies.push(text[from..].to_owned());
                break;
            }
        }
    }
    bodies
}

/// Resolves the escapes of `$'…'`.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(kind) = rest.chars().next() else { break };
        let body = &rest[kind.len_utf8()..];
        let (digits, radix) = match kind {
            'x' => (leading(body, 2, 16), 16),
            'u' => (leading(body, 4, 16), 16),
            'U' => (leading(body, 8, 16), 16),
            '0'..='7' => (leading(rest, 3, 8), 8),
            _ => ("", 10),
        };
        if digits.is_empty() {
            out.push(match kind {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'a' | 'b' | 'e' | 'E' | 'f' | 'v' => '\u{1b}',
                other => other,
            });
            rest = body;
            continue;
        }
        let value = u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
        out.extend(value);
        rest = if radix == 8 { &rest[digits.len()..] } else { &body[digits.len()..] };
    }
    out.push_str(rest);
    out
}

fn leading(text: &str, most: usize, radix: u32) -> &str {
    let length = text.chars().take(most).take_while(|c| c.is_digit(radix)).count();
    &text[..length]
}
