//! Parses and writes the quoting in which shells print their state.

/// The kind of quotation at a position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotation {
    None,
    Single,
    Double,
    /// `$'…'`
    Ansi,
}

/// Splits text into statements: lines, except that a newline within quotes or
/// parentheses does not end one.
pub(super) fn statements(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let end = statement_end(rest);
            let statement = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            if !statement.is_empty() {
                return Some(statement);
            }
        }
        None
    })
}

/// Returns the end of the statement at the start of `text`.
fn statement_end(text: &[u8]) -> usize {
    let mut quotation = Quotation::None;
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        match (quotation, byte) {
            (Quotation::None, b'\n') if depth == 0 => return at,
            (Quotation::None | Quotation::Double | Quotation::Ansi, b'\\') => at += 1,
            (Quotation::None, b'$') if text.get(at + 1) == Some(&b'\'') => {
                quotation = Quotation::Ansi;
                at += 1;
            }
            (Quotation::None, b'\'') => quotation = Quotation::Single,
            (Quotation::None, b'"') => quotation = Quotation::Double,
            (Quotation::None, b'(') => depth += 1,
            (Quotation::None, b')') => depth = depth.saturating_sub(1),
            (Quotation::Single | Quotation::Ansi, b'\'') | (Quotation::Double, b'"') => {
                quotation = Quotation::None;
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Returns the value of one quoted word, or `None` if it is not a single literal
/// word.
pub(super) fn unquote(word: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(word.len());
    let mut rest = word;
    loop {
        rest = match rest {
            [] => return Some(value),
            [b'\'', inner @ ..] => unquote_single(inner, &mut value)?,
            [b'"', inner @ ..] => unquote_double(inner, &mut value)?,
            [b'$', b'\'', inner @ ..] => unquote_ansi(inner, &mut value)?,
            [b'$' | b'`' | b'(' | b')' | b' ' | b'\n' | b';' | b'&' | b'|', ..] => return None,
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                value.push(*byte);
                after
            }
        }
    }
}

fn unquote_single<'t>(text: &'t [u8], value: &mut Vec<u8>) -> Option<&'t [u8]> {
    let end = text.iter().position(|byte| *byte == b'\'')?;
    value.extend_from_slice(&text[..end]);
    Some(&text[end + 1..])
}

fn unquote_double<'t>(mut text: &'t [u8], value: &mut Vec<u8>) -> Option<&'t [u8]> {
    loop {
        text = match text {
            [] | [b'$' | b'`', ..] => return None,
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'\n', after @ ..] => after,
            [b'\\', byte @ (b'"' | b'\\' | b'$' | b'`'), after @ ..] | [byte, after @ ..] => {
                value.push(*byte);
                after
            }
        }
    }
}

fn unquote_ansi<'t>(mut text: &'t [u8], value: &mut Vec<u8>) -> Option<&'t [u8]> {
    loop {
        text = match text {
            [] => return None,
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'0'..=b'7', ..] => {
                let digits = text[1..].iter().take(3).take_while(|b| matches!(b, b'0'..=b'7'));
                let count = digits.count();
                let code =
                    text[1..=count].iter().fold(0_u16, |code, b| code * 8 + u16::from(b - b'0'));
                value.push(u8::try_from(code & 0xff).unwrap_or_default());
                &text[count + 1..]
            }
            [b'\\', byte, after @ ..] => {
                value.push(match byte {
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b'e' | b'E' => 0x1b,
                    b'f' => 0x0c,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 0x0b,
                    b'\'' | b'"' | b'\\' | b'?' => *byte,
                    _ => return None,
                });
                after
            }
            [byte, after @ ..] => {
                value.push(*byte);
                after
            }
        }
    }
}

/// Returns the quoted elements of an array printed by bash, if its subscripts
/// count up from zero.
pub(super) fn dense_elements(array: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = array.strip_prefix(b"(")?.strip_suffix(b")")?;
    let mut elements = Vec::new();
    while !rest.is_empty() {
        let subscript = format!("[{}]=", elements.len());
        rest = rest.strip_prefix(subscript.as_bytes())?;
        let end = quotation_end(rest)?;
        elements.push(&rest[..end]);
        rest = match &rest[end..] {
            [b' ', after @ ..] if !after.is_empty() => after,
            [] => &[],
            _ => return None,
        };
    }
    Some(elements)
}

/// Returns the end of the quotation at the start of `text`, `"…"` or `$'…'`.
fn quotation_end(text: &[u8]) -> Option<usize> {
    let (mut at, quote) = match text {
        [b'"', ..] => (1, b'"'),
        [b'$', b'\'', ..] => (2, b'\''),
        _ => return None,
    };
    loop {
        match *text.get(at)? {
            b'\\' => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Appends `bytes` as one single-quoted word.
pub(super) fn push_quoted(script: &mut Vec<u8>, bytes: &[u8]) {
    script.push(b'\'');
    for (index, part) in bytes.split(|byte| *byte == b'\'').enumerate() {
        if index > 0 {
            script.extend_from_slice(b"'\\''");
        }
        script.extend_from_slice(part);
    }
    script.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_a_shell_quotes_is_undone() {
        let cases: &[(&[u8], &[u8])] = &[
            (b"plain", b"plain"),
            (b"\"\"", b""),
            (b"\"a\\\"b\\$c\\`d\\\\e\"", b"a\"b$c`d\\e"),
            (b"'it'\"'\"'s'", b"it's"),
            (b"'it'\\''s'", b"it's"),
            (b"$'\\377\\001\\n\\t\\E\\'\\\\x'", b"\xff\x01\n\t\x1b'\\x"),
            (b"\"two\nlines\"", b"two\nlines"),
        ];
        for (word, value) in cases {
            assert_eq!(unquote(word).as_deref(), Some(*value));
        }
    }

    #[test]
    fn what_is_no_literal_word_is_not_guessed_at() {
        for word in
            [&b"(a b)"[..], b"\"open", b"'open", b"$'open", b"$x", b"\"$x\"", b"a b", b"`x`"]
        {
            assert_eq!(unquote(word), None);
        }
    }

    #[test]
    fn newlines_in_quotes_and_parentheses_do_not_end_a_statement() {
        let text = b"a='1\n2'\nb=\"x\\\"\ny\"\nc=(1\n2)\n\nd=$'\\'\n'\ne";
        let split: Vec<&[u8]> = statements(text).collect();
        let wanted: Vec<&[u8]> =
            vec![b"a='1\n2'", b"b=\"x\\\"\ny\"", b"c=(1\n2)", b"d=$'\\'\n'", b"e"];
        assert_eq!(split, wanted);
    }

    #[test]
    fn the_elements_of_an_array_without_gaps_are_found() {
        let array = br#"([0]="a b" [1]="" [2]=$'\'\n) [3]' [3]="\") [4]=\"")"#;
        let wanted: Vec<&[u8]> = vec![br#""a b""#, br#""""#, br"$'\'\n) [3]'", br#""\") [4]=\"""#];
        assert_eq!(dense_elements(array), Some(wanted));
        assert_eq!(dense_elements(b"()"), Some(vec![]));
    }

    #[test]
    fn an_array_with_gaps_or_in_another_form_is_left_as_it_is() {
        for array in [
            &b"([1]=\"a\")"[..],
            b"([0]=\"a\" [2]=\"b\")",
            b"([key]=\"a\")",
            b"([0]=a)",
            b"([0]=\"a\"b)",
            b"([0]=\"a\" )",
            b"([0]=\"a)",
            b"([0]=\"a\\)",
            b"'([0]=\"a\")'",
            b"(",
            b"a",
        ] {
            assert_eq!(dense_elements(array), None);
        }
    }

    #[test]
    fn quoting_and_unquoting_are_inverse() {
        for value in [&b""[..], b"'", b"a'b''c", b"\xff\n$`\"\\"] {
            let mut word = Vec::new();
            push_quoted(&mut word, value);
            assert_eq!(unquote(&word).as_deref(), Some(value));
        }
    }
}
