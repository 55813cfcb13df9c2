//! Words of the shell, before anything is expanded.

use super::scan::{self, OpenConstruct};

/// A word: what stands between two blanks, quotes taken off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ShellWord {
    pub(super) parts: Vec<WordPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordPart {
    /// Text that stands for itself, but for wildcards, braces and `~` where it is not quoted.
    Text {
        text: String,
        /// Whether it was quoted or escaped.
        quoted: bool,
    },
    /// The value of a variable.
    Variable {
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
    /// Something whose value is not worked out.
    Opaque(InnerText),
}

/// What happens in something whose value is not worked out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct InnerText {
    /// Commands that run in it.
    pub(super) bodies: Vec<String>,
    /// Sums and subscripts in it. The shell works them out, and runs commands in
    /// the values of the variables that they name.
    pub(super) sums: Vec<String>,
    /// Whether it is the value of what a value names, or a value that is expanded again.
    pub(super) indirect: bool,
    /// Whether it is a number.
    pub(super) number: bool,
    /// Whether it stays one word.
    pub(super) quoted: bool,
    /// A variable whose value it is without the given end; with none, the last
    /// part of the path that is its value.
    pub(super) cut: Option<(String, Option<String>)>,
    /// A variable that is set.
    pub(super) assigned: Vec<String>,
}

impl InnerText {
    pub(super) fn sum(text: &str) -> Self {
        Self { sums: vec![text.to_owned()], number: true, ..Self::default() }
    }

    fn number() -> Self {
        Self { number: true, ..Self::default() }
    }

    fn merge(&mut self, other: Self) {
        self.bodies.extend(other.bodies);
        self.sums.extend(other.sums);
        self.indirect |= other.indirect;
        self.assigned.extend(other.assigned);
    }
}

/// Text ends before it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnfinishedText;

impl ShellWord {
    /// Returns the text if it is nothing but that, unquoted: what could be a reserved word.
    pub(super) fn bare(&self) -> Option<&str> {
        match &self.parts[..] {
            [WordPart::Text { text, quoted: false }] => Some(text),
            _ => None,
        }
    }

    /// Returns the name if the word is an assignment that ends with its `=`.
    pub(super) fn ends_as_assignment(&self) -> bool {
        matches!(&self.parts[..], [WordPart::Text { text, quoted: false }]
            if text.strip_suffix('=').is_some_and(|name| is_name(name.trim_end_matches('+'))))
    }

    fn push_text(&mut self, more: &str, is_quoted: bool) {
        if let Some(WordPart::Text { text, quoted }) = self.parts.last_mut()
            && *quoted == is_quoted
        {
            text.push_str(more);
            return;
        }
        self.parts.push(WordPart::Text { text: more.to_owned(), quoted: is_quoted });
    }
}

/// Reports whether a text can name a variable.
pub(super) fn is_name(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    first && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reads the word at `from` and returns it with where it ends.
pub(super) fn read(text: &str, from: usize) -> Result<(ShellWord, usize), UnfinishedText> {
    let bytes = text.as_bytes();
    let mut word = ShellWord::default();
    let mut at = from;
    while at < bytes.len() {
        let next = bytes.get(at + 1).copied();
        match bytes[at] {
            b'<' | b'>' if next == Some(b'(') => {
                let end =
                    scan::close(text, at + 2, OpenConstruct::Parenthesis).ok_or(UnfinishedText)?;
                word.parts.push(WordPart::Process { body: text[at + 2..end].to_owned() });
                at = end + 1;
            }
            b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')' => break,
            b'\'' => {
                let end = scan::find(bytes, at + 1, b'\'').ok_or(UnfinishedText)?;
                word.push_text(&text[at + 1..end], true);
                at = end + 1;
            }
            b'"' => {
                let end = scan::close(text, at + 1, OpenConstruct::Quote).ok_or(UnfinishedText)?;
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
                let end = scan::ansi_end(bytes, at + 2).ok_or(UnfinishedText)?;
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
fn quoted(word: &mut ShellWord, text: &str) -> Result<(), UnfinishedText> {
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

/// Reads what begins with `$` or a backtick at `at` as a word, and where it ends.
pub(super) fn read_expansion(text: &str, at: usize) -> Result<(ShellWord, usize), UnfinishedText> {
    let mut word = ShellWord::default();
    let end = expansion(&mut word, text, at, true)?;
    Ok((word, end))
}

/// Reads what begins with `$` or a backtick and returns where it ends.
fn expansion(
    word: &mut ShellWord,
    text: &str,
    at: usize,
    quoted: bool,
) -> Result<usize, UnfinishedText> {
    let bytes = text.as_bytes();
    if bytes[at] == b'`' {
        let end = scan::close(text, at + 1, OpenConstruct::Backtick).ok_or(UnfinishedText)?;
        // Within backticks a backslash hides what would end them.
        let body = text[at + 1..end].replace("\\`", "`").replace("\\$", "$");
        word.parts.push(WordPart::Command { body, quoted });
        return Ok(end + 1);
    }
    let Some(&next) = bytes.get(at + 1) else {
        word.push_text("$", quoted);
        return Ok(at + 1);
    };
    match next {
        b'(' => {
            let end =
                scan::close(text, at + 2, OpenConstruct::Parenthesis).ok_or(UnfinishedText)?;
            let body = &text[at + 2..end];
            let part = match body.strip_prefix('(') {
                Some(sum) if sum.ends_with(')') => {
                    WordPart::Opaque(InnerText::sum(&sum[..sum.len() - 1]))
                }
                _ => WordPart::Command { body: body.to_owned(), quoted },
            };
            word.parts.push(part);
            Ok(end + 1)
        }
        // The old way to write a sum.
        b'[' => {
            let end = scan::find(bytes, at + 2, b']').ok_or(UnfinishedText)?;
            word.parts.push(WordPart::Opaque(InnerText::sum(&text[at + 2..end])));
            Ok(end + 1)
        }
        b'{' => {
            let end = scan::close(text, at + 2, OpenConstruct::Brace).ok_or(UnfinishedText)?;
            word.parts.push(braced(&text[at + 2..end], quoted));
            Ok(end + 1)
        }
        b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
            let rest = &bytes[at + 1..];
            let length = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_');
            let end = at + 1 + length.count();
            let name = text[at + 1..end].to_owned();
            word.parts.push(WordPart::Variable { name, fallback: None, quoted });
            Ok(end)
        }
        b'@' | b'*' | b'0'..=b'9' => {
            word.parts.push(WordPart::Parameters);
            Ok(at + 2)
        }
        b'#' | b'?' | b'$' | b'!' => {
            word.parts.push(WordPart::Opaque(InnerText::number()));
            Ok(at + 2)
        }
        b'-' => {
            word.parts.push(WordPart::Opaque(InnerText::default()));
            Ok(at + 2)
        }
        _ => {
            word.push_text("$", quoted);
            Ok(at + 1)
        }
    }
}

/// Reads what stands between `${` and `}`.
fn braced(body: &str, quoted: bool) -> WordPart {
    let length = body.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    let (name, rest) = body.split_at(length);
    let fallback = [":-", "-"].iter().find_map(|operator| rest.strip_prefix(operator));
    let plain = fallback.filter(|text| !text.contains(['$', '`', '\'', '"', '\\']));
    if is_name(name) && (rest.is_empty() || plain.is_some()) {
        let fallback = plain.map(str::to_owned);
        return WordPart::Variable { name: name.to_owned(), fallback, quoted };
    }
    if body == "@" || body == "*" {
        return WordPart::Parameters;
    }
    let mut all = inner(rest);
    let (name, rest) = match body.strip_prefix(['#', '!']) {
        Some(after) => {
            let length = after.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_');
            after.split_at(length.count())
        }
        None => (name, rest),
    };
    let (subscript, rest) = subscript(rest);
    let keys = matches!(subscript, Some("@" | "*"));
    if let Some(subscript) = subscript.filter(|_| !keys) {
        all.sums.push(subscript.to_owned());
    }
    // `${!a[@]}` and `${!a*}` are names, anything else is the value of what a value names.
    let names = keys && rest.is_empty() || subscript.is_none() && matches!(rest, "@" | "*");
    all.indirect |= body.starts_with('!') && body != "!" && !names;
    all.indirect |= rest.starts_with('@') && rest.contains('P');
    if let Some(range) =
        rest.strip_prefix(':').filter(|range| !range.starts_with(['-', '=', '?', '+']))
    {
        all.sums.push(range.to_owned());
    }
    all.number = body.starts_with('#') && rest.is_empty();
    all.quoted = quoted;
    let ending = rest.strip_prefix("%%").or(rest.strip_prefix('%'));
    let cuts =
        ending.is_some_and(|end| end == ".*" || !end.contains(['*', '?', '[', '$', '`', '\\']));
    let whole = is_name(name) && body.starts_with(name) && subscript.is_none();
    if whole && (cuts || rest == "##*/") {
        all.cut = Some((name.to_owned(), ending.map(str::to_owned)));
    }
    if is_name(name) && (rest.starts_with(":=") || rest.starts_with('=')) {
        all.assigned.push(name.to_owned());
    }
    WordPart::Opaque(all)
}

/// Takes the subscript of an array off.
fn subscript(rest: &str) -> (Option<&str>, &str) {
    let Some(inside) = rest.strip_prefix('[') else { return (None, rest) };
    let mut depth = 1_usize;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (Some(&inside[..at]), &inside[at + 1..]);
        }
    }
    (Some(inside), "")
}

/// Returns what happens in a text in which only substitutions matter.
pub(super) fn inner(text: &str) -> InnerText {
    let bytes = text.as_bytes();
    let mut all = InnerText::default();
    let mut at = 0;
    while at < bytes.len() {
        let (from, open) = match (bytes[at], bytes.get(at + 1)) {
            (b'\\', _) => {
                at += 1 + scan::char_len(text, at + 1);
                continue;
            }
            (b'`', _) => (at + 1, OpenConstruct::Backtick),
            (b'$', Some(b'(')) => (at + 2, OpenConstruct::Parenthesis),
            (b'$', Some(b'{')) => (at + 2, OpenConstruct::Brace),
            (b'$', Some(b'[')) => {
                let end = scan::find(bytes, at + 2, b']').unwrap_or(bytes.len());
                all.sums.push(text[at + 2..end].to_owned());
                at = end;
                continue;
            }
            _ => {
                at += 1;
                continue;
            }
        };
        let Some(end) = scan::close(text, from, open) else {
            // The rest is what would run if it were ever closed.
            all.bodies.push(text[from..].to_owned());
            break;
        };
        let body = &text[from..end];
        match (open, body.strip_prefix('(').and_then(|sum| sum.strip_suffix(')'))) {
            (OpenConstruct::Parenthesis, Some(sum)) => all.sums.push(sum.to_owned()),
            (OpenConstruct::Brace, _) => {
                if let WordPart::Opaque(more) = braced(body, true) {
                    all.merge(more);
                }
            }
            _ => all.bodies.push(body.to_owned()),
        }
        at = end + 1;
    }
    all
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
