//! Yes or no, and settings that are one of a few words.

use serde_json::json;

use super::Setting;
use crate::names;
use crate::value::{SettingInput, SettingValue, ValueRefusal};

/// Declares a type of setting that is one of a few words: an enum with a variant for each.
///
/// ```
/// vestal_config::choices! {
///     /// How bread is baked.
///     Crust, "known crust", {
///         /// Soft.
///         Soft = "soft",
///         /// Hard.
///         Hard = "hard",
///     }
/// }
///
/// assert_eq!(Crust::Hard.as_str(), "hard");
/// ```
#[macro_export]
macro_rules! choices {
    (
        $(#[$outer:meta])*
        $name:ident, $noun:literal, {
            $( $(#[$inner:meta])* $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$inner])* $variant, )+
        }

        impl $name {
            const WORDS: &'static [(&'static str, Self)] = &[$( ($word, Self::$variant), )+];

            /// Returns the word that stands for the choice.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::Setting for $name {
            type Limits = ();

            fn read(
                input: $crate::kind::SettingInput<'_>,
                (): &(),
            ) -> Result<Self, $crate::kind::ValueRefusal> {
                $crate::kind::choose(input, Self::WORDS, $noun)
            }

            fn to_value(&self) -> $crate::SettingValue {
                $crate::SettingValue::Text(self.as_str().to_owned())
            }

            fn allowed((): &()) -> String {
                $crate::kind::words(Self::WORDS).join(", ")
            }

            fn examples((): &()) -> Vec<String> {
                $crate::kind::words(Self::WORDS).into_iter().rev().map(str::to_owned).collect()
            }

            fn schema((): &()) -> $crate::kind::Json {
                $crate::kind::one_of(&$crate::kind::words(Self::WORDS))
            }
        }
    };
}

/// Returns the words of choices.
pub fn words<T>(all: &[(&'static str, T)]) -> Vec<&'static str> {
    all.iter().map(|(word, _)| *word).collect()
}

/// Returns the JSON schema of a value that is one of these words.
pub fn one_of(words: &[&str]) -> serde_json::Value {
    json!({"enum": words})
}

/// Reads one of a few words. `noun` is what the message calls them: "is not a `noun`".
pub fn choose<T: Copy>(
    input: SettingInput<'_>,
    all: &[(&'static str, T)],
    noun: &str,
) -> Result<T, ValueRefusal> {
    let text = input.scalar()?.trim().to_ascii_lowercase();
    if let Some((_, choice)) = all.iter().find(|(word, _)| *word == text) {
        return Ok(*choice);
    }
    let meant = names::closest(&text, words(all)).map(|word| format!("did you mean {word}?"));
    Err(ValueRefusal::new(format!("is not a {noun}")).suggesting(meant))
}

impl Setting for bool {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        match input.scalar()?.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(ValueRefusal::new("is neither yes nor no")),
        }
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Bool(*self)
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
