//! Values of rows, and statements put together from parts.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments as _, Row as _};
use vestal_config::ProfileName;

use crate::id::{HostName, RunId, TaskId};
use crate::time::Time;
use crate::{Error, Result};

/// A value of a column. There are no other types, so that any database has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ColumnValue<'v> {
    Null,
    Int(i64),
    Text(Cow<'v, str>),
}

impl From<i64> for ColumnValue<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u32> for ColumnValue<'_> {
    fn from(number: u32) -> Self {
        Self::Int(i64::from(number))
    }
}

impl From<bool> for ColumnValue<'_> {
    fn from(yes: bool) -> Self {
        Self::Int(i64::from(yes))
    }
}

impl From<Time> for ColumnValue<'_> {
    fn from(moment: Time) -> Self {
        Self::Int(moment.millis())
    }
}

impl From<RunId> for ColumnValue<'_> {
    fn from(run: RunId) -> Self {
        Self::Int(run.get())
    }
}

impl From<Duration> for ColumnValue<'_> {
    fn from(duration: Duration) -> Self {
        Self::Int(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }
}

impl<'v> From<&'v str> for ColumnValue<'v> {
    fn from(text: &'v str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for ColumnValue<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'v> From<&'v TaskId> for ColumnValue<'v> {
    fn from(id: &'v TaskId) -> Self {
        id.as_str().into()
    }
}

impl<'v> From<&'v ProfileName> for ColumnValue<'v> {
    fn from(name: &'v ProfileName) -> Self {
        name.as_str().into()
    }
}

impl<'v> From<&'v HostName> for ColumnValue<'v> {
    fn from(name: &'v HostName) -> Self {
        name.as_str().into()
    }
}

impl<'v, T: Into<ColumnValue<'v>>> From<Option<T>> for ColumnValue<'v> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Reads the columns of a row, one after the other.
pub(super) struct Columns<'r> {
    row: &'r SqliteRow,
    at: usize,
    /// Whose row it is, for errors.
    what: &'static str,
}

impl<'r> Columns<'r> {
    pub(super) fn of(row: &'r SqliteRow, what: &'static str) -> Self {
        Self { row, at: 0, what }
    }

    fn unreadable(&self, reason: &impl ToString) -> Error {
        let what = format!("column {} of {}", self.at, self.what);
        Error::Unreadable { what, reason: reason.to_string() }
    }

    fn next<T>(&mut self) -> Result<T>
    where
        T: sqlx::Type<sqlx::Sqlite> + sqlx::Decode<'r, sqlx::Sqlite>,
    {
        self.at += 1;
        self.row.try_get(self.at - 1).map_err(|error| self.unreadable(&error))
    }

    pub(super) fn int(&mut self) -> Result<i64> {
        self.next()
    }

    pub(super) fn ints(&mut self) -> Result<Option<i64>> {
        self.next()
    }

    pub(super) fn text(&mut self) -> Result<String> {
        self.next()
    }

    pub(super) fn texts(&mut self) -> Result<Option<String>> {
        self.next()
    }

    pub(super) fn bool(&mut self) -> Result<bool> {
        Ok(self.int()? != 0)
    }

    pub(super) fn count<N: TryFrom<i64>>(&mut self) -> Result<N> {
        let number = self.int()?;
        N::try_from(number).map_err(|_| self.unreadable(&format!("{number} is out of range")))
    }

    pub(super) fn counts<N: TryFrom<i64>>(&mut self) -> Result<Option<N>> {
        let Some(number) = self.ints()? else { return Ok(None) };
        let number = N::try_from(number);
        number.map(Some).map_err(|_| self.unreadable(&"a number is out of range"))
    }

    pub(super) fn time(&mut self) -> Result<Time> {
        Ok(Time::from_millis(self.int()?))
    }

    pub(super) fn times(&mut self) -> Result<Option<Time>> {
        Ok(self.ints()?.map(Time::from_millis))
    }

    pub(super) fn durations(&mut self) -> Result<Option<Duration>> {
        Ok(self.counts::<u64>()?.map(Duration::from_millis))
    }

    pub(super) fn runs(&mut self) -> Result<Option<RunId>> {
        Ok(self.ints()?.map(RunId::new))
    }

    pub(super) fn word<T: FromStr<Err: ToString>>(&mut self) -> Result<T> {
        let text: &str = self.next()?;
        text.parse().map_err(|error: T::Err| self.unreadable(&error))
    }

    pub(super) fn words<T: FromStr<Err: ToString>>(&mut self) -> Result<Option<T>> {
        let Some(text) = self.next::<Option<&str>>()? else { return Ok(None) };
        text.parse().map(Some).map_err(|error: T::Err| self.unreadable(&error))
    }

    pub(super) fn profiles(&mut self) -> Result<Option<ProfileName>> {
        let Some(text) = self.next::<Option<&str>>()? else { return Ok(None) };
        ProfileName::new(text).map(Some).map_err(|error| self.unreadable(&error))
    }

    pub(super) fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        let text: &str = self.next()?;
        serde_json::from_str(text).map_err(|error| self.unreadable(&error))
    }

    pub(super) fn jsons<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let Some(text) = self.next::<Option<&str>>()? else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|error| self.unreadable(&error))
    }

    /// Passes a column.
    pub(super) fn skip(&mut self, columns: usize) -> &mut Self {
        self.at += columns;
        self
    }
}

/// Statements that are done one after the other, with their values. The driver
/// keeps each text prepared, so there should be few different ones.
#[derive(Default)]
pub(super) struct StatementBatch {
    text: String,
    arguments: SqliteArguments,
}

impl StatementBatch {
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
    pub(super) fn value<'v>(&mut self, value: impl Into<ColumnValue<'v>>) -> &mut Self {
        self.bind(&value.into())
    }

    /// Adds the place of a value.
    pub(super) fn bind(&mut self, value: &ColumnValue<'_>) -> &mut Self {
        self.text.push('?');
        let added = match value {
            ColumnValue::Null => self.arguments.add(None::<i64>),
            ColumnValue::Int(number) => self.arguments.add(*number),
            ColumnValue::Text(text) => self.arguments.add(text.as_ref().to_owned()),
        };
        // Numbers and texts can always be written.
        debug_assert!(added.is_ok(), "a value could not be written");
        self
    }

    /// Adds the places of values, with commas between them, in parentheses.
    pub(super) fn tuple(&mut self, values: &[ColumnValue<'_>]) -> &mut Self {
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
