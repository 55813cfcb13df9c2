//! Words of the model's that others will read: without secrets.

use serde_json::{Map, Value};
use vestal_agent::ToolContext;
use vestal_agent::tools::{Arguments, BadArgument};

/// Returns a text that must be there and say something, its secrets masked.
pub(super) fn required(
    context: &ToolContext,
    arguments: &Arguments,
    name: &str,
) -> Result<String, BadArgument> {
    Ok(context.redactor.redact(&arguments.words(name)?).into_owned())
}

/// Returns a text if there is one that says something, its secrets masked.
pub(super) fn optional(
    context: &ToolContext,
    arguments: &Arguments,
    name: &str,
) -> Result<Option<String>, BadArgument> {
    let text = arguments.optional_text(name)?.filter(|text| !text.trim().is_empty());
    Ok(text.map(|text| context.redactor.redact(&text).into_owned()))
}

/// Returns an object if there is one, the secrets in it masked.
pub(super) fn object(
    context: &ToolContext,
    arguments: &Arguments,
    name: &str,
) -> Result<Option<Value>, BadArgument> {
    let Some(fields) = arguments.object(name)? else { return Ok(None) };
    let text = Value::Object(fields).to_string();
    let masked = context.redactor.redact_result(&text);
    // Masking keeps JSON as JSON.
    let masked: Map<String, Value> = serde_json::from_str(&masked)
        .map_err(|error| BadArgument::new(format!("`{name}` cannot be kept: {error}")))?;
    Ok(Some(Value::Object(masked)))
}
