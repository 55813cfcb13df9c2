use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use proptest::prelude::*;

use super::*;

const ANY: Range = Range { min: 0, max: u64::MAX };

fn read<T: Setting>(text: &str, limits: &T::Limits) -> Result<T, String> {
    T::read(SettingInput::Text(OsStr::new(text)), limits).map_err(|refusal| refusal.reason)
}

#[test]
fn durations_take_seconds_and_suffixes() {
    for (text, seconds) in
        [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200), ("7d", 604_800), (" 5 M ", 300)]
    {
        assert_eq!(read::<Seconds>(text, &ANY), Ok(Seconds::new(seconds)), "{text}");
    }
    for text in ["", "abc", "-1", "1.5", "1w", "m", "1m30s", "0x10", "٣"] {
        assert_eq!(
            read::<Seconds>(text, &ANY),
            Err("is not a duration in whole seconds".to_owned()),
            "{text}"
        );
    }
    assert_eq!(read::<Seconds>("99999999999999999999", &ANY), Err("is too large".to_owned()));
    assert_eq!(read::<Seconds>("999999999999999999d", &ANY), Err("is too large".to_owned()));
}

#[test]
fn numbers_are_kept_within_their_range() {
    let range = Range { min: 60, max: 86_400 };
    assert_eq!(read::<Seconds>("59", &range), Err("is less than 1m".to_owned()));
    assert_eq!(read::<Seconds>("2d", &range), Err("is more than 1d".to_owned()));
    assert_eq!(read::<Seconds>("60", &range), Ok(Seconds::new(60)));
    assert_eq!(read::<Count>("5000000000", &ANY), Err("is too large".to_owned()));
}

#[test]
fn never_is_zero_or_the_word() {
    let range = Range { min: 10, max: 100 };
    assert_eq!(read("0", &range), Ok(SecondsOrNever::Never));
    assert_eq!(read("Never", &range), Ok(SecondsOrNever::Never));
    assert_eq!(read("10s", &range), Ok(SecondsOrNever::After(Seconds::new(10))));
    assert_eq!(read::<SecondsOrNever>("9", &range), Err("is less than 10s".to_owned()));
}

#[test]
fn sizes_take_bytes_and_suffixes() {
    for (text, bytes) in [
        ("65536", 65_536),
        ("64K", 65_536),
        ("8m", 8 << 20),
        ("1GiB", 1 << 30),
        ("2 KB", 2048),
        ("7B", 7),
    ] {
        assert_eq!(read::<ByteSize>(text, &ANY), Ok(ByteSize::new(bytes)), "{text}");
    }
    assert!(read::<ByteSize>("8X", &ANY).is_err());
}

#[test]
fn processors_may_be_fractions_and_zero_is_no_limit() {
    let range = Range { min: 10, max: 4_096_000 };
    for (text, nanos) in [
        ("1", Some(1_000_000_000)),
        ("0.5", Some(500_000_000)),
        ("2.125", Some(2_125_000_000)),
        (" 1.50 ", Some(1_500_000_000)),
        ("0.01", Some(10_000_000)),
        ("0", None),
        ("0.0", None),
    ] {
        assert_eq!(read::<Cpus>(text, &range).expect(text).nanos(), nanos, "{text}");
    }
    for text in ["", ".", "-1", "1,5", "1e3", "half", "1.", ".5", "1.2.3", "٣", "inf", "NaN"] {
        let error = read::<Cpus>(text, &range).expect_err(text);
        assert_eq!(error, "is not a number of processors, such as 2 or 0.5", "{text}");
    }
    assert_eq!(read::<Cpus>("0.001", &range), Err("is less than 0.01".to_owned()));
    assert_eq!(read::<Cpus>("0.0001", &range), Err("is less than 0.01".to_owned()));
    assert_eq!(read::<Cpus>("5000", &range), Err("is more than 4096".to_owned()));
    assert!(read::<Cpus>("99999999999999999999999", &range).is_err());
    let shown = |text| read::<Cpus>(text, &range).expect("fine").to_value();
    assert_eq!(shown("2.0"), SettingValue::Integer(2));
    assert_eq!(shown("1.50").to_string(), "1.5");
}

#[test]
fn megabytes_take_suffixes_and_zero_is_no_limit() {
    let range = Range { min: 6, max: 64 << 20 };
    for (text, megabytes) in [
        ("5120", Some(5120)),
        ("512M", Some(512)),
        ("2g", Some(2048)),
        ("1TiB", Some(1 << 20)),
        ("0", None),
    ] {
        assert_eq!(read::<Megabytes>(text, &range).expect(text).get(), megabytes, "{text}");
    }
    assert_eq!(read::<Megabytes>("1", &range), Err("is less than 6M".to_owned()));
    for text in ["", "5k", "1.5G", "-1", "5120 bytes"] {
        let error = read::<Megabytes>(text, &range).expect_err(text);
        assert_eq!(error, "is not a size in whole megabytes", "{text}");
    }
    assert_eq!(Megabytes::new(2).bytes(), Some(2 << 20));
    assert_eq!(Megabytes::new(0).bytes(), None);
}

#[test]
fn a_limit_of_things_may_be_none() {
    let range = Range { min: 16, max: 4_194_304 };
    assert_eq!(read::<CountOrNone>("0", &range).expect("fine").get(), None);
    assert_eq!(read::<CountOrNone>("256", &range).expect("fine").get(), Some(256));
    assert_eq!(read::<CountOrNone>("3", &range), Err("is less than 16".to_owned()));
    assert!(read::<CountOrNone>("unlimited", &range).is_err());
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    assert!(bool::read(SettingInput::Text(OsStr::from_bytes(b"/srv/\xff")), &()).is_err());
}

#[test]
fn yes_and_no_have_many_spellings() {
    for text in ["true", "1", "yes", "on", "TRUE", " On "] {
        assert_eq!(read(text, &()), Ok(true), "{text}");
    }
    for text in ["false", "0", "no", "off", "False"] {
        assert_eq!(read(text, &()), Ok(false), "{text}");
    }
    assert_eq!(read::<bool>("maybe", &()), Err("is neither yes nor no".to_owned()));
}

#[test]
fn lists_and_maps_in_text_are_json() {
    let names = read::<EnvNames>(r#"["A", "B_2", "A"]"#, &()).expect("a list");
    assert_eq!(names.iter().map(EnvName::as_str).collect::<Vec<_>>(), ["A", "B_2"]);
    let pairs =
        read::<EnvPairs>(r#"{"A": "x y", "B": 1, "C": true, "D": null, "E": "\ud834\udd1e"}"#, &());
    let pairs = pairs.expect("a map");
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value)).collect();
    assert_eq!(pairs, [("A", "x y"), ("B", "1"), ("C", "true"), ("D", ""), ("E", "𝄞")]);
    let indented = read::<EnvPairs>("{\n\t\"A\":\t\"b\"\n}\n", &()).expect("a map");
    assert_eq!(indented.iter().count(), 1);
    for wrong in ["A,B", "\"A\"", "{", "[\"1A\"]", "[\"A=B\"]", "[[\"A\"]]", "{\"A\": 1}"] {
        assert!(read::<EnvNames>(wrong, &()).is_err(), "{wrong}");
    }
    for wrong in [
        "A=B",
        "[\"A\"]",
        "{\"A\": [1]}",
        "{\"A\": 1, \"A\": 2}",
        "{\"\": 1}",
        "{\"A\": \"\\u0000\"}",
    ] {
        assert!(read::<EnvPairs>(wrong, &()).is_err(), "{wrong}");
    }
}

#[test]
fn values_of_pairs_are_in_no_debug_output() {
    let pairs = read::<EnvPairs>(r#"{"A": "hunter2"}"#, &()).expect("a map");
    assert!(!format!("{pairs:?}").contains("hunter2"));
}

#[test]
fn text_is_one_line_or_many_and_no_longer_than_allowed() {
    let line = TextLimits { max_bytes: 8, lines: LineMode::One };
    let lines = TextLimits { max_bytes: 8, lines: LineMode::Many };
    assert_eq!(read::<Text>(" a b ", &line).expect("fine").get(), Some("a b"));
    assert_eq!(read::<Text>("a\nb\t", &lines).expect("fine").get(), Some("a\nb\t"));
    assert_eq!(read::<Text>("", &line).expect("fine").get(), None);
    assert_eq!(read::<Text>("a\nb", &line), Err("contains control characters".to_owned()));
    assert_eq!(read::<Text>("a\u{1b}[0m", &lines), Err("contains control characters".to_owned()));
    assert_eq!(read::<Text>("123456789", &line), Err("is longer than 8 bytes".to_owned()));
}

#[test]
fn a_share_is_between_its_ends() {
    let range = Range { min: 100, max: 950 };
    assert_eq!(read::<Fraction>("0.5", &range), Ok(Fraction::from_thousandths(500)));
    assert_eq!(read::<Fraction>("0.05", &range), Err("is less than 0.1".to_owned()));
    assert_eq!(read::<Fraction>("1", &range), Err("is more than 0.95".to_owned()));
    assert_eq!(read::<Fraction>("99999999999", &range), Err("is more than 0.95".to_owned()));
    for text in ["", "half", "-0.5", "50%", "NaN", ".5"] {
        assert!(read::<Fraction>(text, &range).is_err(), "{text}");
    }
    assert_eq!(Fraction::from_thousandths(500).of(200_001), 100_000);
    assert!((Fraction::from_thousandths(250).as_f64() - 0.25).abs() < f64::EPSILON);
}

#[test]
fn lists_of_names_and_patterns_keep_order_and_have_nothing_twice() {
    let names = read::<Names>(r#"["b", "a", "b"]"#, &()).expect("names");
    assert_eq!(names.iter().collect::<Vec<_>>(), ["b", "a"]);
    assert!(names.contains("a") && !names.contains("c"));
    let patterns = read::<Patterns>(r#"["rm *", "ls", "rm *", 12]"#, &()).expect("patterns");
    assert_eq!(patterns.iter().collect::<Vec<_>>(), ["rm *", "ls", "12"]);
    for wrong in ["a", "{}", r#"[""]"#, r#"["a b"]"#, "[[]]", "[null]"] {
        assert!(read::<Names>(wrong, &()).is_err(), "{wrong}");
    }
    for wrong in ["a", r#"[" "]"#, "[null]", "[\"\\u0000\"]"] {
        assert!(read::<Patterns>(wrong, &()).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn no_key_panics_on_any_text(text in any::<String>()) {
        for key in crate::schema().keys() {
            drop(key.read_untyped(SettingInput::Text(OsStr::new(&text))));
        }
    }

    #[test]
    fn no_key_panics_on_any_bytes(bytes in any::<Vec<u8>>()) {
        for key in crate::schema().keys() {
            drop(key.read_untyped(SettingInput::Text(OsStr::from_bytes(&bytes))));
        }
    }
}
