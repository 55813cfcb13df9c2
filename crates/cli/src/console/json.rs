//! JSON on standard output: single values, lines, and arrays printed one element at a time.

use std::io::{self, BufWriter, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::error::CommandFailure;

/// How JSON is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonLayout {
    /// On one line, for programs.
    Line,
    /// Indented, for people.
    Indented,
}

/// Returns a value as JSON: on one line for programs, indented for people.
pub(crate) fn shown(value: &impl Serialize) -> Result<String, CommandFailure> {
    let form =
        if std::io::stdout().is_terminal() { JsonLayout::Indented } else { JsonLayout::Line };
    in_form(value, form)
}

/// Returns a value as JSON.
fn in_form(value: &impl Serialize, form: JsonLayout) -> Result<String, CommandFailure> {
    let json = match form {
        JsonLayout::Indented => serde_json::to_string_pretty(value),
        JsonLayout::Line => serde_json::to_string(value),
    };
    Ok(inert(&json.map_err(|error| unwritable(&error))?))
}

/// Returns a value as one line of JSON.
pub(crate) fn line(value: &impl Serialize) -> Result<String, CommandFailure> {
    let json = serde_json::to_string(value).map_err(|error| unwritable(&error))?;
    Ok(format!("{}\n", inert(&json)))
}

pub(crate) fn unwritable(error: &serde_json::Error) -> CommandFailure {
    CommandFailure::new(format!("cannot be written as JSON: {error}"))
}

/// Escapes the control characters that JSON lets through and terminals obey.
fn inert(json: &str) -> String {
    if !json.chars().any(|c| c.is_control() && c != '\n') {
        return json.to_owned();
    }
    let escaped = json.chars().map(|c| match c {
        // Ends of lines stand between values only.
        '\n' => c.to_string(),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    });
    escaped.collect()
}

/// An array of JSON on standard output, of which one value at a time is in memory. What is printed
/// is what [`shown`] makes of the whole array.
pub(crate) struct JsonList<W: io::Write = io::Stdout> {
    out: BufWriter<W>,
    form: JsonLayout,
    is_empty: bool,
}

impl JsonList {
    pub(crate) fn on_stdout() -> Self {
        let form = if io::stdout().is_terminal() { JsonLayout::Indented } else { JsonLayout::Line };
        Self::new(io::stdout(), form)
    }
}

impl<W: io::Write> JsonList<W> {
    fn new(out: W, form: JsonLayout) -> Self {
        Self { out: BufWriter::new(out), form, is_empty: true }
    }

    /// Prints a value.
    pub(crate) fn push(&mut self, value: &impl Serialize) -> Result<(), CommandFailure> {
        let text = in_form(value, self.form)?;
        let (before, text) = match (self.form, self.is_empty) {
            (JsonLayout::Line, true) => ("[", text),
            (JsonLayout::Line, false) => (",", text),
            // Ends of lines stand between values only.
            (JsonLayout::Indented, true) => ("[\n  ", text.replace('\n', "\n  ")),
            (JsonLayout::Indented, false) => (",\n  ", text.replace('\n', "\n  ")),
        };
        self.is_empty = false;
        self.write(before)?;
        self.write(&text)
    }

    /// Ends the array.
    pub(crate) fn end(mut self) -> Result<(), CommandFailure> {
        let end = match (self.form, self.is_empty) {
            (_, true) => "[]\n",
            (JsonLayout::Line, false) => "]\n",
            (JsonLayout::Indented, false) => "\n]\n",
        };
        self.write(end)?;
        self.out.flush().map_err(|error| CommandFailure::output(&error))
    }

    fn write(&mut self, text: &str) -> Result<(), CommandFailure> {
        self.out.write_all(text.as_bytes()).map_err(|error| CommandFailure::output(&error))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_of_hostile_text_is_inert_and_says_the_same() {
        let text = "a\u{1b}[2J\u{7f}\u{9b}31m\nb";
        let line = line(&text).unwrap();
        assert_eq!(line, "\"a\\u001b[2J\\u007f\\u009b31m\\nb\"\n");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }

    #[test]
    fn an_array_that_is_printed_as_it_comes_has_the_bytes_of_the_whole() {
        let values = [json!({"a": "x\ny\u{9b}", "b": [1, {"c": []}]}), json!({}), json!("s")];
        for count in 0..=values.len() {
            for form in [JsonLayout::Line, JsonLayout::Indented] {
                let mut bytes = Vec::new();
                let mut list = JsonList::new(&mut bytes, form);
                values[..count].iter().for_each(|value| list.push(value).unwrap());
                list.end().unwrap();
                let whole = format!("{}\n", in_form(&&values[..count], form).unwrap());
                assert_eq!(String::from_utf8(bytes).unwrap(), whole);
            }
        }
    }
}
