//! The settings that shape an instance, and how they drift.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::key::hex;

/// Version of the canonical form. A change of the form is a change of this.
const VERSION: u32 = 1;

/// Key under which an instance whose settings nobody knows any more differs
/// from every configuration. It may isolate less than any of them.
pub(crate) const UNKNOWN_SETTINGS: &str = "settings";

/// What a change of a setting does to a sandbox's isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tightening {
    /// No value isolates more than another.
    Never,
    /// A lower number, or a number where there was none, isolates more.
    Lower {
        /// The value where none is set.
        default: Ceiling,
    },
    /// `false` isolates more than `true`.
    Off,
    /// A list, written as JSON, that lacks something isolates more: mounts.
    Fewer,
    /// Any value isolates more than none, and may isolate more than another one.
    Set,
    /// Any change may isolate more: users.
    Any,
    /// The backend itself compares two values.
    Compared(Comparison),
}

/// A backend's own rule: whether a change from the first value to the second may isolate more. An
/// absent value is the default.
#[derive(Clone, Copy)]
pub struct Comparison(pub fn(Option<&str>, Option<&str>) -> bool);

impl PartialEq for Comparison {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Comparison {}

impl fmt::Debug for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Comparison")
    }
}

/// The most of something that an instance may use. It is written as a number of
/// at most three decimals, or as `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ceiling {
    /// No ceiling is above all ceilings.
    thousandths: u64,
}

impl Ceiling {
    /// No ceiling at all.
    pub const NONE: Self = Self { thousandths: u64::MAX };

    /// Returns a ceiling of so many thousandths.
    pub const fn thousandths(thousandths: u64) -> Self {
        Self { thousandths }
    }

    /// Returns a ceiling of a whole number.
    pub const fn whole(number: u64) -> Self {
        Self { thousandths: number.saturating_mul(1000) }
    }

    /// Reads what [`fmt::Display`] writes.
    fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::NONE);
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
            return None;
        }
        let whole = whole.parse::<u64>().ok()?.checked_mul(1000)?;
        let fraction = format!("{fraction:0<3}").parse::<u64>().ok()?;
        whole.checked_add(fraction).map(Self::thousandths)
    }
}

impl fmt::Display for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return f.write_str("none");
        }
        let (whole, fraction) = (self.thousandths / 1000, self.thousandths % 1000);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let fraction = format!("{fraction:03}");
        write!(f, "{whole}.{}", fraction.trim_end_matches('0'))
    }
}

/// Settings that shape an instance, in canonical form: every value that is not
/// the default, by key. An absent key is the default, so that a new version
/// with new keys is not drift.
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
    /// Whether it isolates less, or may.
    pub loosens: bool,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [was, now] = [&self.was, &self.now].map(|value| value.as_deref().unwrap_or("default"));
        write!(f, "{} ({was} → {now})", self.key)
    }
}

impl Spec {
    /// Adds a setting with a value that is not its default.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str, tightening: Tightening) -> Self {
        self.values.insert(key.to_owned(), SpecValue { text: value.to_owned(), tightening });
        self
    }

    /// Returns this spec with the settings of another added.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.values.extend(other.values);
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
                    loosens: loosens(tightening, was, now),
                })
            })
            .collect()
    }
}

/// A change isolates less if the way back would isolate more.
fn loosens(tightening: Tightening, was: Option<&String>, now: Option<&String>) -> bool {
    match tightening {
        Tightening::Off => {
            let is_off = |value: Option<&String>| value.is_some_and(|value| value == "false");
            is_off(was) && !is_off(now)
        }
        _ => tightens(tightening, now, was),
    }
}

fn tightens(tightening: Tightening, was: Option<&String>, now: Option<&String>) -> bool {
    match tightening {
        Tightening::Never => false,
        Tightening::Any => true,
        Tightening::Compared(Comparison(may_isolate_more)) => {
            may_isolate_more(was.map(String::as_str), now.map(String::as_str))
        }
        Tightening::Set => now.is_some(),
        Tightening::Off => now.is_some_and(|now| now == "false"),
        Tightening::Fewer => {
            let list = |text: Option<&String>| {
                text.map_or(Some(Vec::new()), |text| serde_json::from_str::<Vec<String>>(text).ok())
            };
            match (list(was), list(now)) {
                (Some(was), Some(now)) => was.iter().any(|entry| !now.contains(entry)),
                // What is not a list cannot be compared: be careful.
                (None, _) | (_, None) => true,
            }
        }
        Tightening::Lower { default } => {
            let ceiling =
                |text: Option<&String>| text.map_or(Some(default), |text| Ceiling::parse(text));
            match (ceiling(was), ceiling(now)) {
                (Some(was), Some(now)) => now < was,
                // What is not a number cannot be compared: be careful.
                (None, _) | (_, None) => true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOWER: Tightening = Tightening::Lower { default: Ceiling::whole(5) };

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
        let made = Spec::default().with("memory", "512", LOWER).to_map();
        let now = Spec::default().with("memory", "256", LOWER);
        let expected = Drift {
            key: "memory".into(),
            was: Some("512".into()),
            now: Some("256".into()),
            tightens: true,
            loosens: false,
        };
        assert_eq!(now.drift_from(&made, none), [expected]);
    }

    #[test]
    fn only_what_isolates_more_tightens() {
        let some = |text: &str| Some(text.to_owned());
        let cases = [
            (LOWER, some("1"), some("2"), false),
            (LOWER, some("2"), some("1.5"), true),
            (LOWER, some("10"), some("9"), true),
            (LOWER, None, some("2"), true),
            (LOWER, None, some("7"), false),
            (LOWER, some("2"), None, false),
            (LOWER, some("7"), None, true),
            (LOWER, None, some("none"), false),
            (LOWER, some("none"), None, true),
            (LOWER, some("none"), some("100000"), true),
            (LOWER, some("100000"), some("none"), false),
            (LOWER, some("nonsense"), None, true),
            (LOWER, None, some("nonsense"), true),
            (Tightening::Off, some("true"), some("false"), true),
            (Tightening::Off, None, some("false"), true),
            (Tightening::Off, some("false"), None, false),
            (Tightening::Any, some("a"), None, true),
            (Tightening::Set, None, some("a"), true),
            (Tightening::Set, some("b"), some("a"), true),
            (Tightening::Set, some("a"), None, false),
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
    fn what_isolates_less_loosens() {
        let some = |text: &str| Some(text.to_owned());
        let cases = [
            (LOWER, some("1"), some("2"), true),
            (LOWER, some("2"), some("1"), false),
            (LOWER, some("2"), None, true),
            (Tightening::Off, some("false"), None, true),
            (Tightening::Off, some("false"), some("true"), true),
            (Tightening::Off, None, some("false"), false),
            (Tightening::Fewer, None, some(r#"["/a:/b"]"#), true),
            (Tightening::Fewer, some(r#"["/a:/b:ro"]"#), some(r#"["/a:/b"]"#), true),
            (Tightening::Fewer, some(r#"["/a:/b"]"#), None, false),
            (Tightening::Never, some("2"), some("1"), false),
        ];
        for (rule, was, now, expected) in cases {
            assert_eq!(
                loosens(rule, was.as_ref(), now.as_ref()),
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

    #[test]
    fn a_ceiling_is_read_as_it_is_written() {
        let cases = [
            (Ceiling::NONE, "none"),
            (Ceiling::whole(0), "0"),
            (Ceiling::whole(51_200), "51200"),
            (Ceiling::thousandths(1500), "1.5"),
            (Ceiling::thousandths(50), "0.05"),
            (Ceiling::thousandths(1001), "1.001"),
        ];
        for (ceiling, text) in cases {
            assert_eq!(ceiling.to_string(), text);
            assert_eq!(Ceiling::parse(text), Some(ceiling), "{text}");
        }
        for text in ["", "-1", "1.", ".5", "1.0001", "1e3", "99999999999999999999", "None"] {
            assert_eq!(Ceiling::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_list_tightens_by_what_it_lacks_and_not_by_what_it_gains() {
        let list = |text: &str| Some(text.to_owned());
        let fewer = |was: Option<String>, now: Option<String>| {
            tightens(Tightening::Fewer, was.as_ref(), now.as_ref())
        };
        assert!(!fewer(None, list(r#"["/a:/b"]"#)));
        assert!(!fewer(list(r#"["/a:/b"]"#), list(r#"["/c:/d","/a:/b"]"#)));
        assert!(fewer(list(r#"["/a:/b"]"#), None));
        assert!(fewer(list(r#"["/a:/b"]"#), list(r#"["/a:/b:ro"]"#)));
        assert!(fewer(list("garbage"), list("[]")));
    }
}
