//! Where things end in shell text.
//!
//! Nothing here recurses: what is nested is kept on a stack of its own, so that
//! no text can exhaust the stack of the process.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenConstruct {
    /// `(`, `$(`, `<(`.
    Parenthesis,
    /// `${`.
    Brace,
    /// `"`.
    Quote,
    /// `` ` ``.
    Backtick,
}

/// How deep things may be nested before nobody looks at them any more.
const DEEPEST: usize = 200;

struct ScanFrame {
    open: OpenConstruct,
    /// `case`s without their `esac`, in which `)` ends a pattern.
    cases: usize,
}

/// A here-document whose body has not started.
struct PendingHeredoc {
    delimiter: String,
    strips_tabs: bool,
}

/// Returns where the closing character is of what was opened right before
/// `from`; nothing if it is never closed, or lies too deep.
pub(super) fn close(text: &str, from: usize, open: OpenConstruct) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut stack = vec![ScanFrame { open, cases: 0 }];
    let mut pending: Vec<PendingHeredoc> = Vec::new();
    let mut at = from;
    while at < bytes.len() {
        if stack.len() > DEEPEST {
            return None;
        }
        let inside = stack.last().map(|frame| frame.open)?;
        let byte = bytes[at];
        let next = bytes.get(at + 1).copied();
        match (inside, byte) {
            (_, b'\\') => at += 1 + char_len(text, at + 1),
            (_, b'`') if inside == OpenConstruct::Backtick => {
                stack.pop();
                if stack.is_empty() {
                    return Some(at);
                }
                at += 1;
            }
            (OpenConstruct::Backtick, _) => at += 1,
            (_, b'`') => {
                stack.push(ScanFrame { open: OpenConstruct::Backtick, cases: 0 });
                at += 1;
            }
            (_, b'$') if next == Some(b'(') => {
                stack.push(ScanFrame { open: OpenConstruct::Parenthesis, cases: 0 });
                at += 2;
            }
            (_, b'$') if next == Some(b'{') => {
                stack.push(ScanFrame { open: OpenConstruct::Brace, cases: 0 });
                at += 2;
            }
            (OpenConstruct::Quote, b'"') | (OpenConstruct::Brace, b'}') => {
                stack.pop();
                if stack.is_empty() {
                    return Some(at);
                }
                at += 1;
            }
            (OpenConstruct::Quote, _) => at += 1,
            (_, b'"') => {
                stack.push(ScanFrame { open: OpenConstruct::Quote, cases: 0 });
                at += 1;
            }
            (_, b'$') if next == Some(b'\'') && inside == OpenConstruct::Parenthesis => {
                at = ansi_end(bytes, at + 2)? + 1;
            }
            (OpenConstruct::Parenthesis, b'\'') => at = find(bytes, at + 1, b'\'')? + 1,
            (OpenConstruct::Brace, b'\'') => {
                // Within double quotes an apostrophe in `${…}` is only that.
                let quoted =
                    stack.iter().rev().nth(1).is_some_and(|f| f.open == OpenConstruct::Quote);
                at = if quoted { at + 1 } else { find(bytes, at + 1, b'\'')? + 1 };
            }
            (OpenConstruct::Parenthesis, b'(') => {
                stack.push(ScanFrame { open: OpenConstruct::Parenthesis, cases: 0 });
                at += 1;
            }
            (OpenConstruct::Parenthesis, b')') => {
                if stack.last().is_some_and(|frame| frame.cases == 0) {
                    stack.pop();
                }
                if stack.is_empty() {
                    return Some(at);
                }
                at += 1;
            }
            (OpenConstruct::Parenthesis, b'#') if starts_word(bytes, at) => {
                at = find(bytes, at, b'\n').unwrap_or(bytes.len());
            }
            (OpenConstruct::Parenthesis, b'\n') => {
                at += 1;
                for heredoc in pending.drain(..) {
                    at = heredoc_end(text, at, &heredoc.delimiter, heredoc.strips_tabs).1;
                }
            }
            (OpenConstruct::Parenthesis, b'<') if next == Some(b'<') => {
                if bytes.get(at + 2) == Some(&b'<') {
                    at += 3;
                } else {
                    let strips_tabs = bytes.get(at + 2) == Some(&b'-');
                    let (delimiter, _, end) = delimiter(text, at + 2 + usize::from(strips_tabs));
                    if !delimiter.is_empty() {
                        pending.push(PendingHeredoc { delimiter, strips_tabs });
                    }
                    at = end.max(at + 2);
                }
            }
            (OpenConstruct::Parenthesis, b'c' | b'e') if starts_word(bytes, at) => {
                if let Some(frame) = stack.last_mut() {
                    if is_word(bytes, at, b"case") {
                        frame.cases += 1;
                    } else if is_word(bytes, at, b"esac") {
                        frame.cases = frame.cases.saturating_sub(1);
                    }
                }
                at += 1;
            }
            (OpenConstruct::Brace | OpenConstruct::Parenthesis, _) => at += 1,
        }
    }
    None
}

/// Returns the word after `<<`, without its quotes, whether it had any, and where it ends.
pub(super) fn delimiter(text: &str, from: usize) -> (String, bool, usize) {
    let bytes = text.as_bytes();
    let mut at = from;
    while matches!(bytes.get(at), Some(b' ' | b'\t')) {
        at += 1;
    }
    let mut word = String::new();
    let mut quoted = false;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')' => break,
            b'\'' | b'"' => {
                quoted = true;
                let end = find(bytes, at + 1, byte).unwrap_or(bytes.len());
                word.push_str(&text[at + 1..end]);
                at = (end + 1).min(bytes.len());
            }
            b'\\' => {
                quoted = true;
                let length = char_len(text, at + 1);
                word.push_str(&text[at + 1..at + 1 + length]);
                at += 1 + length;
            }
            _ => {
                let length = char_len(text, at).max(1);
                word.push_str(&text[at..at + length]);
                at += length;
            }
        }
    }
    (word, quoted, at)
}

/// Returns where the body of a here-document that begins at `from` ends, and
/// where the text after it begins. Without an end it takes all there is.
pub(super) fn heredoc_end(
    text: &str,
    from: usize,
    delimiter: &str,
    strips_tabs: bool,
) -> (usize, usize) {
    let mut at = from;
    while at < text.len() {
        let end = text[at..].find('\n').map_or(text.len(), |offset| at + offset);
        let line = &text[at..end];
        let line = if strips_tabs { line.trim_start_matches('\t') } else { line };
        let after = (end + 1).min(text.len());
        if line == delimiter {
            return (at, after);
        }
        at = after;
    }
    (text.len(), text.len())
}

/// Returns where the apostrophe is that ends `$'…'`.
pub(super) fn ansi_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'\'' => return Some(at),
            _ => at += 1,
        }
    }
    None
}

pub(super) fn find(bytes: &[u8], from: usize, wanted: u8) -> Option<usize> {
    bytes.get(from..)?.iter().position(|byte| *byte == wanted).map(|offset| from + offset)
}

/// Returns the length of the character at an index; 0 at the end.
pub(super) fn char_len(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8)
}

fn starts_word(bytes: &[u8], at: usize) -> bool {
    at == 0 || matches!(bytes[at - 1], b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(')
}

fn is_word(bytes: &[u8], at: usize, word: &[u8]) -> bool {
    let ends = |byte: Option<&u8>| {
        byte.is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')'))
    };
    bytes[at..].starts_with(word) && ends(bytes.get(at + word.len()))
}
