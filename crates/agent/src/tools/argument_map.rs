//! Arguments of tool calls by name, for tools that do not declare them as a type.

use std::time::Duration;

use serde_json::{Map, Value};

use super::arguments::BadArgument;

/// The arguments of one call. Absent and `null` are the same, and what a tool
/// does not know it ignores.
#[derive(Debug)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    /// Returns the arguments of a call.
    pub fn new(value: Value) -> Result<Self, BadArgument> {
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            Value::Null => Ok(Self(Map::new())),
            other => Err(BadArgument::wrong("an object", &other).within("arguments")),
        }
    }

    /// Returns an argument as it came.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Returns a text that must be there; it may be empty.
    pub fn text(&self, name: &str) -> Result<String, BadArgument> {
        self.optional_text(name)?.ok_or_else(|| BadArgument::missing(name))
    }

    /// Returns a text that must be there and say something.
    pub fn words(&self, name: &str) -> Result<String, BadArgument> {
        let text = self.text(name)?;
        if text.trim().is_empty() {
            return Err(BadArgument::new(format!("`{name}` must not be empty")));
        }
        Ok(text)
    }

    /// Returns a text. A number is taken for its digits, as in an id.
    pub fn optional_text(&self, name: &str) -> Result<Option<String>, BadArgument> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(other) => Err(BadArgument::wrong("a string", other).within(name)),
        }
    }

    /// Returns a yes or no; absent is no.
    pub fn flag(&self, name: &str) -> Result<bool, BadArgument> {
        Ok(self.optional_flag(name)?.unwrap_or(false))
    }

    /// Returns a yes or no, if there is one.
    pub fn optional_flag(&self, name: &str) -> Result<Option<bool>, BadArgument> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let word = match value {
            Value::Bool(flag) => return Ok(Some(*flag)),
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.trim().to_ascii_lowercase(),
            other => return Err(BadArgument::wrong("true or false", other).within(name)),
        };
        match word.as_str() {
            "true" | "yes" | "1" => Ok(Some(true)),
            "false" | "no" | "0" | "" => Ok(Some(false)),
            _ => Err(BadArgument::wrong("true or false", value).within(name)),
        }
    }

    /// Returns a whole number.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, BadArgument> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let wrong = || BadArgument::wrong("a whole number", value).within(name);
        let number = number(value).ok_or_else(wrong)?;
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
        if number.fract() == 0.0 && number.abs() < 9e15 {
            Ok(Some(number as i64))
        } else {
            Err(wrong())
        }
    }

    /// Returns a number of things, at least `least`.
    pub fn count(&self, name: &str, least: u32) -> Result<Option<usize>, BadArgument> {
        let Some(number) = self.integer(name)? else { return Ok(None) };
        match usize::try_from(number) {
            Ok(count) if number >= i64::from(least) => Ok(Some(count)),
            _ => Err(BadArgument::new(format!("`{name}` must be at least {least}, got {number}"))),
        }
    }

    /// Returns a time, given in seconds and longer than none.
    pub fn seconds(&self, name: &str) -> Result<Option<Duration>, BadArgument> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let wrong = || BadArgument::wrong("a number of seconds", value).within(name);
        let seconds = number(value).ok_or_else(wrong)?;
        if seconds <= 0.0 {
            return Err(BadArgument::new(format!("`{name}` must be more than 0 seconds")));
        }
        Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| wrong())
    }

    /// Returns texts: a list of them, or one alone.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, BadArgument> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let wrong = || BadArgument::wrong("a list of strings", value).within(name);
        let text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(wrong()),
        };
        match self.list(name) {
            Ok(items) => items.unwrap_or_default().iter().map(text).collect(),
            Err(_) => Ok(vec![text(value)?]),
        }
    }

    /// Returns an object, also one that came as a string of JSON.
    pub fn object(&self, name: &str) -> Result<Option<Map<String, Value>>, BadArgument> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(fields.clone())),
            Some(Value::String(text))
                if let Ok(Value::Object(fields)) = serde_json::from_str(text) =>
            {
                Ok(Some(fields))
            }
            Some(other) => Err(BadArgument::wrong("an object", other).within(name)),
        }
    }

    /// Returns a list, also one that came as a string of JSON.
    pub fn list(&self, name: &str) -> Result<Option<Vec<Value>>, BadArgument> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items.clone())),
            Some(Value::String(text))
                if let Ok(Value::Array(items)) = serde_json::from_str(text) =>
            {
                Ok(Some(items))
            }
            Some(other) => Err(BadArgument::wrong("a list", other).within(name)),
        }
    }
}

/// Returns a number, also one that came as a string.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
    .filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
#[path = "argument_map_tests.rs"]
mod tests;
