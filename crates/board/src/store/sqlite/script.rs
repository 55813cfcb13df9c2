//! Several statements in one trip to the database.

use sqlx::Arguments as _;
use sqlx::sqlite::SqliteArguments;

use super::row::Value;

/// Statements that are done one after the other, with their values. The driver
/// keeps each text prepared, so there should be few different ones.
#[derive(Default)]
pub(super) struct Script {
    text: String,
    arguments: SqliteArguments,
}

impl Script {
    /// Begins a script with a text that has no values.
    pub(super) fn of(text: &str) -> Self {
        let mut script = Self::default();
        script.push(text);
        script
    }

    /// Adds text.
    pub(super) fn push(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Adds the place of a value.
    ///
    /// `SQLite` takes nameless ones in the order of the text, and finds them at
    /// once; names, `$1` among them, are looked for from the first on. `PostgreSQL`
    /// wants `$` and the number.
    pub(super) fn value<'v>(&mut self, value: impl Into<Value<'v>>) -> &mut Self {
        self.bind(&value.into())
    }

    /// Adds the place of a value.
    pub(super) fn bind(&mut self, value: &Value<'_>) -> &mut Self {
        self.text.push('?');
        let added = match value {
            Value::Null => self.arguments.add(None::<i64>),
            Value::Int(number) => self.arguments.add(*number),
            Value::Text(text) => self.arguments.add(text.as_ref().to_owned()),
        };
        // Numbers and texts can always be written.
        debug_assert!(added.is_ok(), "a value could not be written");
        self
    }

    /// Adds the places of values, with commas between them, in parentheses.
    pub(super) fn tuple(&mut self, values: &[Value<'_>]) -> &mut Self {
        self.text.push('(');
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            self.bind(value);
        }
        self.text.push(')');
        self
    }

    /// Ends a statement.
    pub(super) fn end(&mut self) -> &mut Self {
        self.text.push(';');
        self
    }

    /// Reports whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn into_parts(self) -> (String, SqliteArguments) {
        (self.text, self.arguments)
    }
}
