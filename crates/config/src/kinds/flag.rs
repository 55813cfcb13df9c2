//! Yes or no.

use serde_json::json;

use super::Setting;
use crate::input::{Input, Refusal};
use crate::value::Value;

impl Setting for bool {
    type Limits = ();

    fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
        match input.scalar()?.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(Refusal::new("is neither yes nor no")),
        }
    }

    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }

    fn allowed((): &()) -> String {
        "true or false (also 1/0, yes/no, on/off)".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["false".to_owned(), "true".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "boolean"})
    }
}
