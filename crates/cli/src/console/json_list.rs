//! Arrays of JSON that are printed as they come.

use std::io::{self, BufWriter, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::error::Failure;
use crate::json::{self, Form};

/// An array of JSON on standard output, of which one value at a time is in memory. What is printed
/// is what [`json::shown`] makes of the whole array.
pub(crate) struct JsonList<W: io::Write = io::Stdout> {
    out: BufWriter<W>,
    form: Form,
    is_empty: bool,
}

impl JsonList {
    pub(crate) fn on_stdout() -> Self {
        let form = if io::stdout().is_terminal() { Form::Indented } else { Form::Line };
        Self::new(io::stdout(), form)
    }
}

impl<W: io::Write> JsonList<W> {
    fn new(out: W, form: Form) -> Self {
        Self { out: BufWriter::new(out), form, is_empty: true }
    }

    /// Prints a value.
    pub(crate) fn push(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = json::in_form(value, self.form)?;
        let (before, text) = match (self.form, self.is_empty) {
            (Form::Line, true) => ("[", text),
            (Form::Line, false) => (",", text),
            // Ends of lines stand between values only.
            (Form::Indented, true) => ("[\n  ", text.replace('\n', "\n  ")),
            (Form::Indented, false) => (",\n  ", text.replace('\n', "\n  ")),
        };
        self.is_empty = false;
        self.write(before)?;
        self.write(&text)
    }

    /// Ends the array.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        let end = match (self.form, self.is_empty) {
            (_, true) => "[]\n",
            (Form::Line, false) => "]\n",
            (Form::Indented, false) => "\n]\n",
        };
        self.write(end)?;
        self.out.flush().map_err(|error| Failure::output(&error))
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).map_err(|error| Failure::output(&error))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_array_that_is_printed_as_it_comes_has_the_bytes_of_the_whole() {
        let values = [json!({"a": "x\ny\u{9b}", "b": [1, {"c": []}]}), json!({}), json!("s")];
        for count in 0..=values.len() {
            for form in [Form::Line, Form::Indented] {
                let mut bytes = Vec::new();
                let mut list = JsonList::new(&mut bytes, form);
                values[..count].iter().for_each(|value| list.push(value).unwrap());
                list.end().unwrap();
                let whole = format!("{}\n", json::in_form(&&values[..count], form).unwrap());
                assert_eq!(String::from_utf8(bytes).unwrap(), whole);
            }
        }
    }
}
