//! Types of the board's settings: caps, counts that follow another setting, and what a commit
//! survives.

use serde_json::json;
use vestal_config::kind::{SettingInput, ValueRefusal};
use vestal_config::{Count, Range, Setting, SettingValue};

const AUTO: &str = "auto";
const NONE: &str = "none";

/// What a cap is when nobody says a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uncapped {
    /// There is none.
    None,
    /// It follows the machine, as these words say; `auto` asks for that.
    Auto(&'static str),
}

/// A cap on what goes on at the same time.
///
/// Whatever was given, this is one: a cap that cannot be understood must not
/// stop all work, so it is refused, and the given value is kept for the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cap {
    /// No cap.
    None,
    /// As the machine says.
    Auto(&'static str),
    /// So many, at least one.
    At(u32),
    /// No cap, because what was given is none.
    Invalid(String),
}

impl Cap {
    /// Returns the number; none where there is no cap or it follows the machine.
    pub const fn get(&self) -> Option<u32> {
        match self {
            Self::At(number) => Some(*number),
            Self::None | Self::Auto(_) | Self::Invalid(_) => None,
        }
    }

    /// Reports whether the cap follows the machine.
    pub const fn is_auto(&self) -> bool {
        matches!(self, Self::Auto(_))
    }

    /// Returns what was given and is not a cap.
    pub fn invalid(&self) -> Option<&str> {
        match self {
            Self::Invalid(text) => Some(text),
            Self::None | Self::Auto(_) | Self::At(_) => None,
        }
    }

    fn parse(text: &str, limits: Uncapped) -> Option<Self> {
        let text = text.trim();
        if text.eq_ignore_ascii_case(NONE) {
            return Some(Self::None);
        }
        if let Uncapped::Auto(words) = limits
            && text.eq_ignore_ascii_case(AUTO)
        {
            return Some(Self::Auto(words));
        }
        let digits = text.trim_start_matches('0');
        let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // More than can be counted is as good as the largest number.
        whole.then(|| Self::At(digits.parse().unwrap_or(u32::MAX)))
    }
}

impl Setting for Cap {
    type Limits = Uncapped;

    fn read(input: SettingInput<'_>, limits: &Uncapped) -> Result<Self, ValueRefusal> {
        let read = input.scalar().ok().and_then(|text| Self::parse(text, *limits));
        Ok(read.unwrap_or_else(|| Self::Invalid(input.shown())))
    }

    fn to_value(&self) -> SettingValue {
        match self {
            Self::None | Self::Invalid(_) => SettingValue::Text(NONE.to_owned()),
            Self::Auto(_) => SettingValue::Text(AUTO.to_owned()),
            Self::At(number) => SettingValue::Integer(u64::from(*number)),
        }
    }

    fn in_words(&self) -> Option<String> {
        match self {
            Self::Auto(words) => Some((*words).to_owned()),
            Self::None | Self::Invalid(_) | Self::At(_) => None,
        }
    }

    fn doubt(&self) -> Option<&'static str> {
        self.invalid().map(|_| "is not a whole number ≥ 1, so the cap is ignored")
    }

    fn allowed(limits: &Uncapped) -> String {
        match limits {
            Uncapped::None => format!("1 or more; {NONE} for no cap"),
            Uncapped::Auto(words) => format!("1 or more; {AUTO} for {words}; {NONE} for no cap"),
        }
    }

    fn examples(limits: &Uncapped) -> Vec<String> {
        let mut examples = vec!["4".to_owned(), "1".to_owned(), NONE.to_owned()];
        if let Uncapped::Auto(_) = limits {
            examples.push(AUTO.to_owned());
        }
        examples
    }

    fn schema(limits: &Uncapped) -> serde_json::Value {
        let words: &[&str] = match limits {
            Uncapped::None => &[NONE],
            Uncapped::Auto(_) => &[AUTO, NONE],
        };
        json!({"anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "pattern": "^0*[1-9][0-9]*$"},
            {"enum": words},
        ]})
    }
}

/// A number of things, or as another key says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CountOrSame {
    /// As the key of this name says.
    Same(&'static str),
    /// So many.
    Count(u32),
}

impl CountOrSame {
    /// Returns the number; none where another key says it.
    pub const fn get(self) -> Option<u32> {
        match self {
            Self::Same(_) => None,
            Self::Count(count) => Some(count),
        }
    }
}

impl Setting for CountOrSame {
    /// What is allowed, and the key that says it otherwise.
    type Limits = (Range, &'static str);

    fn read(input: SettingInput<'_>, (range, key): &Self::Limits) -> Result<Self, ValueRefusal> {
        if input.scalar()?.trim().eq_ignore_ascii_case(AUTO) {
            return Ok(Self::Same(key));
        }
        Count::read(input, range).map(|count| Self::Count(count.get()))
    }

    fn to_value(&self) -> SettingValue {
        match self {
            Self::Same(_) => SettingValue::Text(AUTO.to_owned()),
            Self::Count(count) => SettingValue::Integer(u64::from(*count)),
        }
    }

    fn in_words(&self) -> Option<String> {
        match self {
            Self::Same(key) => Some(format!("as {key}")),
            Self::Count(_) => None,
        }
    }

    fn allowed((range, key): &Self::Limits) -> String {
        format!("{} to {}; {AUTO} for as {key}", range.min, range.max)
    }

    fn examples((range, _): &Self::Limits) -> Vec<String> {
        let mut examples = Count::examples(range);
        examples.push(AUTO.to_owned());
        examples
    }

    fn schema((range, _): &Self::Limits) -> serde_json::Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": range.min, "maximum": range.max},
            {"enum": [AUTO]},
        ]})
    }
}

vestal_config::choices! {
    /// What a change that was reported survives.
    DurabilityChoice, "known durability", {
        /// A loss of power.
        Full = "full",
        /// The death of every process; a loss of power may take the last moments.
        Normal = "normal",
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn read<T: Setting>(text: &str, limits: &T::Limits) -> Result<T, String> {
        T::read(SettingInput::Text(OsStr::new(text)), limits).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn a_cap_that_is_not_a_number_is_ignored_with_a_warning() {
        for (text, cap) in [("4", 4), (" 4 ", 4), ("007", 7), ("99999999999999999999", u32::MAX)] {
            assert_eq!(read::<Cap>(text, &Uncapped::None), Ok(Cap::At(cap)), "{text}");
        }
        assert_eq!(read("none", &Uncapped::None), Ok(Cap::None));
        assert_eq!(read("Auto", &Uncapped::Auto("x")), Ok(Cap::Auto("x")));
        for text in ["0", "00", "-1", "abc", "4.5", "1e3", "+4", "auto", "٣", "[4]", "true"] {
            let cap = read::<Cap>(text, &Uncapped::None).expect("never an error");
            assert_eq!((cap.get(), cap.invalid()), (None, Some(format!("{text:?}").as_str())));
            assert_eq!(cap.to_value(), SettingValue::Text("none".to_owned()), "{text}");
            assert!(cap.doubt().is_some(), "{text}");
        }
        let odd = OsStr::from_bytes(b"\xff");
        let odd = Cap::read(SettingInput::Text(odd), &Uncapped::None).expect("a cap");
        assert!(odd.invalid().is_some());
    }

    #[test]
    fn a_count_may_be_as_another_key_says() {
        let limits = (Range { min: 1, max: 9 }, "kanban.failure_limit");
        assert_eq!(read("auto", &limits), Ok(CountOrSame::Same("kanban.failure_limit")));
        assert_eq!(read::<CountOrSame>("3", &limits).expect("fine").get(), Some(3));
        assert_eq!(read::<CountOrSame>("0", &limits), Err("is less than 1".to_owned()));
        assert!(read::<CountOrSame>("[1]", &limits).is_err());
    }
}
