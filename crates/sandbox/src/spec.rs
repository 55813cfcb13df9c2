//! The settings that shape an instance, and how they drift.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::key::hex;

/// Version of the canonical form. A change of the form is a change of this.
const VERSION: u32 = 1;

/// What a change of a setting does to a sandbox's isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tightening {
    /// No value isolates more than another.
    Never,
    /// A lower number, or a number where there was none, isolates more.
    Lower,
    /// `false` isolates more than `true`.
    Off,
    /// Any change may isolate more: users, mounts.
    Any,
}

/// Settings that shape an instance, in canonical form: every value that is not
/// the default, by key. An absent key is the default, so that a new version
/// with new keys is no drift.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spec {
    values: BTreeMap<String, SpecValue>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SpecValue {
    text: String,
    tightening: Tightening,
}

/// One setting that differs between an instance and the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The setting.
    pub key: String,
    /// Its value in the instance; absent: the default.
    pub was: Option<String>,
    /// Its value now; absent: the default.
    pub now: Option<String>,
    /// Whether the change isolates more, so that it must not be ignored.
    pub tightens: bool,
}

impl Spec {
    /// Adds a setting with a value that is not its default.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str, tightening: Tightening) -> Self {
        self.values.insert(key.to_owned(), SpecValue { text: value.to_owned(), tightening });
        self
    }

    /// Returns the values by key, as they are kept beside the sandbox.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.values.iter().map(|(key, value)| (key.clone(), value.text.clone())).collect()
    }

    /// Returns the hash that labels carry.
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(VERSION.to_le_bytes());
        for (key, value) in &self.values {
            for part in [key, &value.text] {
                hasher.update((part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
        }
        hex(&hasher.finalize()[..16])
    }

    /// Returns how this spec differs from the one an instance was made with.
    ///
    /// A key that is at its default now carries no rule of its own; `rule` names
    /// it for every key the backend knows.
    pub fn drift_from(
        &self,
        made: &BTreeMap<String, String>,
        rule: impl Fn(&str) -> Tightening,
    ) -> Vec<Drift> {
        let keys = self.values.keys().chain(made.keys());
        let keys: std::collections::BTreeSet<&String> = keys.collect();
        keys.into_iter()
            .filter_map(|key| {
                let was = made.get(key);
                let now = self.values.get(key).map(|value| &value.text);
                if was == now {
                    return None;
                }
                let tightening =
                    self.values.get(key).map_or_else(|| rule(key), |value| value.tightening);
                Some(Drift {
                    key: key.clone(),
                    was: was.cloned(),
                    now: now.cloned(),
                    tightens: tightens(tightening, was, now),
                })
            })
            .collect()
    }
}

fn tightens(tightening: Tightening, was: Option<&String>, now: Option<&String>) -> bool {
    match tightening {
        Tightening::Never => false,
        Tightening::Any => true,
        Tightening::Off => now.is_some_and(|now| now == "false"),
        Tightening::Lower => {
            let number = |text: Option<&String>| text.and_then(|text| text.parse::<f64>().ok());
            match (number(was), number(now)) {
                (Some(was), Some(now)) => now < was,
                // Values that are no numbers cannot be compared: be careful.
                (None, Some(_)) => true,
                (_, None) => false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str) -> Tightening {
        Tightening::Never
    }

    #[test]
    fn the_same_settings_have_one_hash_whatever_their_order() {
        let one =
            Spec::default().with("a", "1", Tightening::Never).with("b", "2", Tightening::Never);
        let two =
            Spec::default().with("b", "2", Tightening::Never).with("a", "1", Tightening::Never);
        assert_eq!(one.hash(), two.hash());
        assert_ne!(one.hash(), Spec::default().hash());
        assert_eq!(one.drift_from(&two.to_map(), none), []);
    }

    #[test]
    fn drift_names_the_key_both_values_and_whether_it_tightens() {
        let made = Spec::default().with("memory", "512", Tightening::Lower).to_map();
        let now = Spec::default().with("memory", "256", Tightening::Lower);
        let expected = Drift {
            key: "memory".into(),
            was: Some("512".into()),
            now: Some("256".into()),
            tightens: true,
        };
        assert_eq!(now.drift_from(&made, none), [expected]);
    }

    #[test]
    fn only_what_isolates_more_tightens() {
        let some = |text: &str| Some(text.to_owned());
        let cases = [
            (Tightening::Lower, some("1"), some("2"), false),
            (Tightening::Lower, None, some("2"), true),
            (Tightening::Lower, some("2"), None, false),
            (Tightening::Off, some("true"), some("false"), true),
            (Tightening::Off, None, some("false"), true),
            (Tightening::Off, some("false"), None, false),
            (Tightening::Any, some("a"), None, true),
            (Tightening::Never, some("2"), some("1"), false),
        ];
        for (rule, was, now, expected) in cases {
            assert_eq!(
                tightens(rule, was.as_ref(), now.as_ref()),
                expected,
                "{rule:?} {was:?} {now:?}"
            );
        }
    }

    #[test]
    fn a_value_given_up_is_judged_by_the_backends_rule() {
        let made = Spec::default().with("mount", "/a", Tightening::Any).to_map();
        let drift = Spec::default().drift_from(&made, |_| Tightening::Any);
        assert!(drift[0].tightens);
    }
}
