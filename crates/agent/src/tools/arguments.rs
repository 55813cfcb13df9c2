//! Arguments of tool calls.
//!
//! A tool declares its arguments once, as a struct. The struct gives the JSON
//! schema that the model sees ([`tool_spec`]) and the values that the tool works
//! with ([`parse`]). Reading is lenient where models err: a number may come as a
//! string, a list or an object as a string of JSON, one item in place of a list.
//! Absent and `null` are the same, and unknown arguments are ignored.

mod lenient;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::time::Duration;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use vestal_model::ToolSpec;

use crate::tool::ToolOutput;
use lenient::Lenient;

/// Characters of a wrong value that an error shows.
const SHOWN: usize = 60;

/// Returns what the model is told of a tool: the schema of the arguments comes
/// from their type, and the descriptions from the comments of its fields.
pub fn tool_spec<T: JsonSchema>(name: &str, description: &str) -> ToolSpec {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut parameters = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut parameters);
    if let Some(root) = parameters.as_object_mut() {
        root.remove("description");
    }
    ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters }
}

/// Leaves out what some providers refuse and no model needs: titles, formats,
/// and `null` as another type of what may be absent.
fn simplify(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    for name in ["title", "format"] {
        fields.remove(name);
    }
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    let is_nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if fields.get("default").is_some_and(is_nothing) {
        fields.remove("default");
    }
    if let Some(Value::Array(choices)) = fields.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    // Documented variants of an enum.
    if let Some(Value::Array(variants)) = fields.get("oneOf")
        && let Some(words) = variants.iter().map(|it| it.get("const").cloned()).collect()
    {
        fields.remove("oneOf");
        fields.insert("type".to_owned(), "string".into());
        fields.insert("enum".to_owned(), Value::Array(words));
    }
    if let Some(Value::Array(mut schemas)) = fields.remove("anyOf") {
        schemas.retain(|schema| schema["type"] != "null");
        match (schemas.pop(), schemas.is_empty()) {
            (Some(Value::Object(only)), true) => {
                for (name, value) in only {
                    fields.entry(name).or_insert(value);
                }
            }
            (last, _) => {
                schemas.extend(last);
                fields.insert("anyOf".to_owned(), Value::Array(schemas));
            }
        }
        return simplify(schema);
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
    if let Some(items) = fields.get_mut("items") {
        simplify(items);
    }
}

/// Reads the arguments of a call.
pub fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, BadArgument> {
    let arguments = if arguments.is_null() { Value::Object(Map::new()) } else { arguments };
    T::deserialize(Lenient(arguments)).map_err(|error| error.within("arguments"))
}

/// An argument that cannot be used. The message tells the model how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadArgument {
    subject: ErrorSubject,
    problem: String,
}

/// What an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ErrorSubject {
    /// The value that is being read.
    Value,
    /// An item of the list that is being read.
    Item,
    /// An argument, or several.
    Named(String),
    /// The message says it.
    Message,
}

impl BadArgument {
    /// Returns an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { subject: ErrorSubject::Message, problem: message.into() }
    }

    /// Returns an error about an argument that has to be there.
    pub fn missing(name: &str) -> Self {
        Self {
            subject: ErrorSubject::Named(format!("`{name}`")),
            problem: "is required".to_owned(),
        }
    }

    fn wrong(wanted: &str, got: &Value) -> Self {
        let mut shown = got.to_string();
        if let Some((cut, _)) = shown.char_indices().nth(SHOWN) {
            shown.truncate(cut);
            shown.push('…');
        }
        Self { subject: ErrorSubject::Value, problem: format!("must be {wanted}, got {shown}") }
    }

    /// Says which argument it is about, unless that is known.
    fn within(self, name: &str) -> Self {
        let subject = match self.subject {
            ErrorSubject::Value => ErrorSubject::Named(format!("`{name}`")),
            ErrorSubject::Item => ErrorSubject::Named(format!("each of `{name}`")),
            known => known,
        };
        Self { subject, ..self }
    }

    fn of_item(self) -> Self {
        match self.subject {
            ErrorSubject::Value => Self { subject: ErrorSubject::Item, ..self },
            _ => self,
        }
    }
}

impl fmt::Display for BadArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            ErrorSubject::Named(name) => write!(f, "{name} {}", self.problem),
            ErrorSubject::Value | ErrorSubject::Item | ErrorSubject::Message => {
                f.write_str(&self.problem)
            }
        }
    }
}

impl std::error::Error for BadArgument {}

impl serde::de::Error for BadArgument {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self { subject: ErrorSubject::Value, problem: problem.to_string() }
    }

    fn missing_field(name: &'static str) -> Self {
        Self::missing(name)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let choices = match expected {
            [] => "nothing".to_owned(),
            [only] => (*only).to_owned(),
            [most @ .., last] => format!("{} or {last}", most.join(", ")),
        };
        Self::custom(format!("must be {choices}, got {variant:?}"))
    }
}

impl From<BadArgument> for ToolOutput {
    fn from(bad: BadArgument) -> Self {
        Self::error(bad.to_string())
    }
}

/// A text that says something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NonEmptyString(String);

impl NonEmptyString {
    /// Returns the text.
    pub fn into_inner(self) -> String {
        self.0
    }
}

impl Deref for NonEmptyString {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for NonEmptyString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.trim().is_empty() {
            return Err(D::Error::custom("must not be empty"));
        }
        Ok(Self(text))
    }
}

impl JsonSchema for NonEmptyString {
    fn schema_name() -> Cow<'static, str> {
        "NonEmptyString".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Reads an argument that may be left out. Models fill in a blank for what they leave out, so
/// a blank counts as absent.
pub fn blank_as_absent<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    match Option::<Value>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(value) => T::deserialize(Lenient(value)).map(Some).map_err(D::Error::custom),
    }
}

/// An argument that is read where it is used. What an action does not use is ignored: models
/// fill in all arguments, with zeros or blanks.
#[derive(Debug)]
pub(super) struct Deferred<T> {
    value: Value,
    read_as: PhantomData<T>,
}

impl<T: DeserializeOwned> Deferred<T> {
    /// Reads the argument, which the tool's schema calls `name`.
    pub(super) fn read(&self, name: &str) -> Result<Option<T>, BadArgument> {
        let value = Lenient(self.value.clone());
        Option::<T>::deserialize(value).map_err(|error| error.within(name))
    }
}

impl<T> Default for Deferred<T> {
    fn default() -> Self {
        Self { value: Value::Null, read_as: PhantomData }
    }
}

impl<'de, T> Deserialize<'de> for Deferred<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { value: Value::deserialize(deserializer)?, read_as: PhantomData })
    }
}

impl<T: JsonSchema> JsonSchema for Deferred<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A number of things, at least `LEAST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CountArgument<const LEAST: u32>(pub usize);

impl<'de, const LEAST: u32> Deserialize<'de> for CountArgument<LEAST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        match usize::try_from(number) {
            Ok(count) if number >= i64::from(LEAST) => Ok(Self(count)),
            _ => Err(D::Error::custom(format!("must be at least {LEAST}, got {number}"))),
        }
    }
}

impl<const LEAST: u32> JsonSchema for CountArgument<LEAST> {
    fn schema_name() -> Cow<'static, str> {
        format!("Count{LEAST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": LEAST })
    }
}

/// A time longer than zero, given in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecondsArgument(pub Duration);

impl<'de> Deserialize<'de> for SecondsArgument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if seconds <= 0.0 {
            return Err(D::Error::custom("must be more than 0 seconds"));
        }
        let time = Duration::try_from_secs_f64(seconds);
        time.map(Self).map_err(|_| D::Error::custom("is too many seconds"))
    }
}

impl JsonSchema for SecondsArgument {
    fn schema_name() -> Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1 })
    }
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
