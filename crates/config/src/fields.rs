//! What a form needs to know of a key besides its value.

use serde::Serialize;

use crate::key::{AnyKey, Protection, Secrecy};
use crate::layers::SettingLayer;
use crate::settings::{SettingRow, Settings};
use crate::value::SettingValue;

/// A key with its value in effect and everything that a person should know to change it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Field {
    /// The key and the value in effect.
    #[serde(flatten)]
    pub row: SettingRow,
    /// The value without any setting; none where it is a secret.
    pub default: Option<SettingValue>,
    /// The same in words, where they say more.
    pub default_text: Option<String>,
    /// What is allowed, in words.
    pub allowed: String,
    /// Values that are allowed, as they may be given to `set`.
    pub examples: Vec<String>,
    /// The JSON schema of its values.
    pub schema: serde_json::Value,
    /// Variables that set it, which come before the file.
    pub env: &'static [&'static str],
    /// Other names of it in the file.
    pub aliases: &'static [&'static str],
    /// What of its values is not shown.
    pub secrecy: FieldSecrecy,
    /// Whether it protects something.
    pub protects: bool,
    /// Whether `config.yaml` sets it, also where something else comes before.
    pub in_file: bool,
}

/// What of a key's values is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldSecrecy {
    /// Everything is shown.
    Public,
    /// Nothing is.
    Secret,
    /// Some entries are not.
    Within,
}

impl Settings {
    /// Returns every key with what a form needs, in the order of the documentation.
    pub fn fields(&self) -> Vec<Field> {
        self.schema.keys().zip(self.rows()).map(|(key, row)| self.field_of(key, row)).collect()
    }

    /// Returns the same of one key; none where no key has the name.
    pub fn field(&self, name: &str) -> Option<Field> {
        let key = self.schema.find(name)?;
        Some(self.field_of(key, self.row(key)))
    }

    fn field_of(&self, key: &dyn AnyKey, row: SettingRow) -> Field {
        let secrecy = match key.secrecy() {
            Secrecy::Public => FieldSecrecy::Public,
            Secrecy::Secret => FieldSecrecy::Secret,
            Secrecy::Within(_) => FieldSecrecy::Within,
        };
        let is_in_file = |given: &crate::layers::GivenValue<'_>| {
            !matches!(key.read_untyped(given.input), Ok(None))
        };
        let in_file =
            self.given(SettingLayer::File, key).is_ok_and(|given| given.iter().any(is_in_file));
        Field {
            default: (secrecy != FieldSecrecy::Secret).then(|| key.default_untyped()),
            default_text: key.default_text(),
            allowed: key.allowed(),
            examples: key.examples(),
            schema: key.schema(),
            env: key.env(),
            aliases: key.aliases(),
            secrecy,
            protects: key.protection() != Protection::None,
            in_file,
            row,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::TestHome;

    #[test]
    fn a_field_says_what_the_file_has_also_where_something_else_comes_before() {
        let home = TestHome::with_config("terminal:\n  timeout: 5\n");
        let settings = home.settings(&[("TERMINAL_TIMEOUT", "9")], &[]);
        let field = settings.field("terminal.timeout").expect("a key");
        assert!(field.in_file && field.row.changed);
        assert_eq!(field.row.value.map(|value| value.to_string()), Some("9".to_owned()));
        let other = settings.field("terminal.cwd").expect("a key");
        assert!(!other.in_file);
        assert!(settings.field("no.such.key").is_none());
    }

    #[test]
    fn no_secret_is_in_a_field() {
        let home = TestHome::with_config(
            "model: {api_key: sk-of-the-model}\nproviders: {one: {api_key: sk-of-one}}\n",
        );
        let fields = home.settings(&[], &[]).fields();
        let shown = serde_json::to_string(&fields).expect("JSON");
        assert!(!shown.contains("sk-of"), "{shown}");
    }
}
