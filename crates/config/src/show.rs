//! Every key with the value in effect.

use serde::Serialize;

use crate::key::AnyKey;
use crate::settings::Settings;
use crate::source::Source;
use crate::value::Value;

/// A key and the value in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The key.
    pub key: &'static str,
    /// The value, masked when secret; none when it cannot be read.
    pub value: Option<Value>,
    /// Where the value came from; none when it cannot be read.
    pub source: Option<Source>,
    /// Whether the value differs from the default.
    pub changed: bool,
    /// Why there is no value.
    pub error: Option<String>,
    /// What the key does.
    pub doc: &'static str,
}

impl Settings {
    /// Returns every key with the value in effect, in the order of the documentation.
    pub fn rows(&self) -> Vec<Row> {
        self.schema.keys().map(|key| self.row(key)).collect()
    }

    fn row(&self, key: &dyn AnyKey) -> Row {
        let (key_name, doc) = (key.name(), key.doc());
        match key.resolve(self) {
            Ok(resolved) => Row {
                key: key_name,
                changed: resolved.value != key.default_untyped(),
                value: Some(key.secrecy().shown(resolved.value)),
                source: Some(resolved.source),
                error: None,
                doc,
            },
            Err(error) => Row {
                key: key_name,
                value: None,
                source: None,
                changed: true,
                error: Some(error.to_string()),
                doc,
            },
        }
    }
}
