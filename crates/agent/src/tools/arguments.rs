//! Arguments of tool calls.
//!
//! A tool declares its arguments once, as a struct. The struct gives the JSON
//! schema that the model sees ([`tool_spec`]) and the values that the tool works
//! with ([`parse`]). Reading is lenient where models err: a number may come as a
//! string, a list or an object as a string of JSON, one item in place of a list.
//! Absent and `null` are the same, and unknown arguments are ignored.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, Visitor,
};
use serde::{Deserialize, Serialize, forward_to_deserialize_any};
use serde_json::{Map, Value};
use vestal_model::ToolSpec;

use crate::tool::ToolOutput;

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
    subject: Subject,
    problem: String,
}

/// What an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
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
        Self { subject: Subject::Message, problem: message.into() }
    }

    /// Returns an error about an argument that has to be there.
    pub fn missing(name: &str) -> Self {
        Self { subject: Subject::Named(format!("`{name}`")), problem: "is required".to_owned() }
    }

    pub(super) fn wrong(wanted: &str, got: &Value) -> Self {
        let mut shown = got.to_string();
        if let Some((cut, _)) = shown.char_indices().nth(SHOWN) {
            shown.truncate(cut);
            shown.push('…');
        }
        Self { subject: Subject::Value, problem: format!("must be {wanted}, got {shown}") }
    }

    /// Says which argument it is about, unless that is known.
    pub(super) fn within(self, name: &str) -> Self {
        let subject = match self.subject {
            Subject::Value => Subject::Named(format!("`{name}`")),
            Subject::Item => Subject::Named(format!("each of `{name}`")),
            known => known,
        };
        Self { subject, ..self }
    }

    fn of_item(self) -> Self {
        match self.subject {
            Subject::Value => Self { subject: Subject::Item, ..self },
            _ => self,
        }
    }
}

impl fmt::Display for BadArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Named(name) => write!(f, "{name} {}", self.problem),
            Subject::Value | Subject::Item | Subject::Message => f.write_str(&self.problem),
        }
    }
}

impl std::error::Error for BadArgument {}

impl serde::de::Error for BadArgument {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self { subject: Subject::Value, problem: problem.to_string() }
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
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NonEmptyString".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Reads a text that may be left out. Models fill in a blank for what they leave out, so a
/// blank counts as absent.
pub fn blank_as_absent<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<NonEmptyString>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.trim().is_empty()).map(NonEmptyString))
}

/// A number of things, at least `LEAST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Count<const LEAST: u32>(pub usize);

impl<'de, const LEAST: u32> Deserialize<'de> for Count<LEAST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        match usize::try_from(number) {
            Ok(count) if number >= i64::from(LEAST) => Ok(Self(count)),
            _ => Err(D::Error::custom(format!("must be at least {LEAST}, got {number}"))),
        }
    }
}

impl<const LEAST: u32> JsonSchema for Count<LEAST> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Count{LEAST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": LEAST })
    }
}

/// A time longer than zero, given in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub Duration);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if seconds <= 0.0 {
            return Err(D::Error::custom("must be more than 0 seconds"));
        }
        let time = Duration::try_from_secs_f64(seconds);
        time.map(Self).map_err(|_| D::Error::custom("is too many seconds"))
    }
}

impl JsonSchema for Seconds {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Seconds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1 })
    }
}

/// A value that is read leniently.
struct Lenient(Value);

impl Lenient {
    /// Returns a number, also one that came as a string.
    fn number(&self, wanted: &str) -> Result<f64, BadArgument> {
        let number = match &self.0 {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| BadArgument::wrong(wanted, &self.0))
    }

    fn integer(&self) -> Result<i64, BadArgument> {
        let number = self.number("a whole number")?;
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
        if number.fract() == 0.0 && number.abs() < 9e15 {
            Ok(number as i64)
        } else {
            Err(BadArgument::wrong("a whole number", &self.0))
        }
    }

    fn text(self, wanted: &str) -> Result<String, BadArgument> {
        match self.0 {
            Value::String(text) => Ok(text),
            // A number is taken for its digits, as in an id.
            Value::Number(number) => Ok(number.to_string()),
            other => Err(BadArgument::wrong(wanted, &other)),
        }
    }
}

macro_rules! integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
            visitor.visit_i64(self.integer()?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Lenient {
    type Error = BadArgument;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        self.0.deserialize_any(visitor).map_err(BadArgument::custom)
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        visitor.visit_f64(self.number("a number")?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        let word = match &self.0 {
            Value::Bool(flag) => return visitor.visit_bool(*flag),
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.trim().to_ascii_lowercase(),
            _ => String::from("neither"),
        };
        match word.as_str() {
            "true" | "yes" | "1" => visitor.visit_bool(true),
            "false" | "no" | "0" | "" => visitor.visit_bool(false),
            _ => Err(BadArgument::wrong("true or false", &self.0)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        self.deserialize_string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        visitor.visit_string(self.text("a string")?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, BadArgument> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        let items = match self.0 {
            Value::Array(items) => items,
            Value::String(text) if let Ok(Value::Array(items)) = serde_json::from_str(&text) => {
                items
            }
            alone => {
                let items = Items(vec![alone.clone()].into_iter());
                return visitor.visit_seq(items).map_err(|_| BadArgument::wrong("a list", &alone));
            }
        };
        visitor.visit_seq(Items(items.into_iter()))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, BadArgument> {
        let fields = match self.0 {
            Value::Object(fields) => fields,
            Value::String(text) if let Ok(Value::Object(fields)) = serde_json::from_str(&text) => {
                fields
            }
            other => return Err(BadArgument::wrong("an object", &other)),
        };
        visitor.visit_map(Fields { fields: fields.into_iter(), next: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, BadArgument> {
        self.deserialize_map(visitor)
    }

    /// Reads a word of a choice, however it is capitalised and joined.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, BadArgument> {
        let word = self.text("a string")?.trim().to_ascii_lowercase().replace([' ', '-'], "_");
        visitor.visit_enum(IntoDeserializer::<BadArgument>::into_deserializer(word))
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// The items of a list.
struct Items(std::vec::IntoIter<Value>);

impl<'de> SeqAccess<'de> for Items {
    type Error = BadArgument;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, BadArgument> {
        let item = self.0.next().map(|item| seed.deserialize(Lenient(item)));
        item.transpose().map_err(BadArgument::of_item)
    }
}

/// The fields of an object that are not `null`.
struct Fields {
    fields: serde_json::map::IntoIter,
    next: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for Fields {
    type Error = BadArgument;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, BadArgument> {
        self.next = self.fields.by_ref().find(|(_, value)| !value.is_null());
        let key = self.next.as_ref().map(|(name, _)| name.as_str());
        key.map(|key| seed.deserialize(key.into_deserializer())).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, BadArgument> {
        let (name, value) = self.next.take().unwrap_or_default();
        seed.deserialize(Lenient(value)).map_err(|error| error.within(&name))
    }
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
