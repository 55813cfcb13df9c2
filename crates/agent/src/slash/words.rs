//! Words, divided as in a shell.

/// A quote that is never closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no second {0} to end what the first begins")]
pub struct Unclosed(pub char);

impl Unclosed {
    /// Returns what to do about it.
    pub fn advice(self) -> String {
        format!("for the sign itself: \\{}", self.0)
    }
}

/// Splits a line into words as shells do: blanks divide them, except in quotes
/// and after a backslash. Nothing is expanded.
pub fn words(line: &str) -> Result<Vec<String>, Unclosed> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => {
                let next = characters.next();
                let word = word.get_or_insert_default();
                match (quote, next) {
                    // In double quotes a backslash stands for itself before most.
                    (Some(_), Some(next)) if !"\\\"".contains(next) => {
                        word.push('\\');
                        word.push(next);
                    }
                    (_, next) => word.extend(next),
                }
            }
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(Unclosed(open));
    }
    words.extend(word);
    Ok(words)
}

/// Returns a word so that [`words`] reads it as one.
pub fn quoted(word: &str) -> String {
    let is_plain =
        |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '\'' | '"' | '\\');
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.contains('\'') {
        return format!("'{word}'");
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}
