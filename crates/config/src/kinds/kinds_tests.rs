use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::keys;

const ANY: Range = Range { min: 0, max: u64::MAX };

fn read<T: Setting>(text: &str, limits: &T::Limits) -> Result<T, String> {
    T::read(Input::Text(OsStr::new(text)), limits).map_err(|refusal| refusal.reason)
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
        assert_eq!(read::<Bytes>(text, &ANY), Ok(Bytes::new(bytes)), "{text}");
    }
    assert!(read::<Bytes>("8X", &ANY).is_err());
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
    assert_eq!(shown("2.0"), Value::Integer(2));
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
fn the_program_of_the_engine_is_a_name_or_a_whole_path() {
    let resolve = |text: &str| {
        let home = Path::new("/home/ada");
        read::<DockerBinary>(text, &()).map(|own| own.resolve(Some(home)))
    };
    assert_eq!(resolve("podman"), Ok(Some("podman".into())));
    assert_eq!(resolve("/usr/bin/docker"), Ok(Some("/usr/bin/docker".into())));
    assert_eq!(resolve("~/bin/docker"), Ok(Some("/home/ada/bin/docker".into())));
    for text in ["", "bin/docker", "./docker", "docker run", "-x", ".", "..", "~", "~bob"] {
        assert!(resolve(text).is_err(), "{text:?}");
    }
    assert_eq!(DockerBinary::Found.resolve(None), None);
    let home = crate::testing::TestHome::with_config("terminal:\n  docker_binary: \"\"\n");
    let binary = home.settings(&[], &[]).get(&keys::DOCKER_BINARY).expect("fine").value;
    assert_eq!(binary, DockerBinary::Found);
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
fn a_backend_on_the_way_is_told_from_a_misspelt_one() {
    let names = BackendNames {
        known: &["native", "docker", "local"],
        mistaken: &[("podman", "Podman is used through the backend docker")],
        reserved: &["ssh", "modal"],
    };
    assert_eq!(read("LOCAL", &names), Ok(BackendChoice::Named("local")));
    assert_eq!(read("auto", &names), Ok(BackendChoice::Auto));
    for name in names.reserved {
        assert_eq!(
            read::<BackendChoice>(name, &names),
            Err("is a backend that is not in this version".to_owned())
        );
    }
    let refusal =
        BackendChoice::read(Input::Text(OsStr::new("Podman")), &names).expect_err("refused");
    assert_eq!(refusal.reason, "is no backend of its own");
    assert_eq!(refusal.suggestion.as_deref(), Some("Podman is used through the backend docker"));
    let refusal =
        BackendChoice::read(Input::Text(OsStr::new("locl")), &names).expect_err("refused");
    assert_eq!(refusal.reason, "is no backend");
    assert_eq!(refusal.suggestion.as_deref(), Some("did you mean local?"));
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
fn start_directories_know_placeholders_and_home() {
    let (launch, home) = (Path::new("/launch"), Path::new("/home/ada"));
    let resolve =
        |text: &str| read::<StartDir>(text, &()).expect("a directory").resolve(launch, Some(home));
    for placeholder in [".", "auto", "cwd"] {
        assert_eq!(resolve(placeholder), launch);
    }
    assert_eq!(resolve("/srv"), Path::new("/srv"));
    assert_eq!(resolve("sub/dir"), Path::new("/launch/sub/dir"));
    assert_eq!(resolve("~"), home);
    assert_eq!(resolve("~/x"), Path::new("/home/ada/x"));
    assert_eq!(resolve("~bob/x"), Path::new("/launch/~bob/x"));
}

#[test]
fn a_directory_in_a_variable_need_not_be_utf8() {
    let odd = OsStr::from_bytes(b"/srv/\xff");
    assert_eq!(StartDir::read(Input::Text(odd), &()), Ok(StartDir::At(PathBuf::from(odd))));
    assert_eq!(SandboxDir::read(Input::Text(odd), &()), Ok(SandboxDir::At(PathBuf::from(odd))));
    assert!(bool::read(Input::Text(odd), &()).is_err());
}

#[test]
fn a_relative_sandbox_directory_is_refused() {
    assert!(read::<SandboxDir>("boxes", &()).is_err());
    let in_home = PathBuf::from("/v/sandboxes");
    assert_eq!(SandboxDir::InHome.resolve(in_home.clone(), None), in_home);
    let tilde = read::<SandboxDir>("~/boxes", &()).expect("a path");
    assert_eq!(tilde.resolve(in_home, Some(Path::new("/home/ada"))), Path::new("/home/ada/boxes"));
}

#[test]
fn a_root_filesystem_is_the_hosts_or_named_by_its_whole_path() {
    let home = Some(Path::new("/home/ada"));
    let resolve = |text: &str| read::<Rootfs>(text, &()).map(|rootfs| rootfs.resolve(home));
    assert_eq!(resolve("host"), Ok(None));
    assert_eq!(resolve("/srv/debian"), Ok(Some(PathBuf::from("/srv/debian"))));
    assert_eq!(resolve("~/debian.tar"), Ok(Some(PathBuf::from("/home/ada/debian.tar"))));
    for wrong in ["debian", "./debian", ""] {
        assert!(resolve(wrong).is_err(), "{wrong}");
    }
    assert_eq!(Rootfs::Host.to_value(), Value::Text("host".to_owned()));
}

#[test]
fn values_of_pairs_are_in_no_debug_output() {
    let pairs = read::<EnvPairs>(r#"{"A": "hunter2"}"#, &()).expect("a map");
    assert!(!format!("{pairs:?}").contains("hunter2"));
}

#[test]
fn an_address_is_one_of_the_web_without_secrets() {
    for (text, kept) in [
        ("https://api.example.com/v1/", Some("https://api.example.com/v1")),
        (" HTTP://Localhost:8000 ", Some("HTTP://Localhost:8000")),
        ("http://[::1]:80/x", Some("http://[::1]:80/x")),
        ("http://my_host.internal.:65535", Some("http://my_host.internal.:65535")),
        ("", None),
    ] {
        assert_eq!(read::<BaseUrl>(text, &()).expect(text).get(), kept, "{text}");
    }
    for text in [
        "api.example.com",
        "ftp://x",
        "https://",
        "https:///v1",
        "https://x:0",
        "https://x:70000",
        "https://x:y",
        "https://[::1",
        "https://a b",
        "https://x/?key=1",
        "https://x/#a",
        "https://user:pw@x",
        "https://-\u{fc}.example",
        "https://x..y",
    ] {
        assert!(read::<BaseUrl>(text, &()).is_err(), "{text}");
    }
    let refusal = BaseUrl::read(Input::Text(OsStr::new("https://u:p@x")), &()).expect_err("user");
    assert!(refusal.secret);
    let refusal = BaseUrl::read(Input::Text(OsStr::new("x.example/v1")), &()).expect_err("bare");
    assert_eq!(refusal.suggestion.as_deref(), Some("did you mean https://x.example/v1?"));
}

#[test]
fn text_is_one_line_or_many_and_no_longer_than_allowed() {
    let line = TextLimits { max_bytes: 8, lines: Lines::One };
    let lines = TextLimits { max_bytes: 8, lines: Lines::Many };
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
fn tokens_are_a_number_or_left_to_the_model() {
    let range = Range { min: 1024, max: 2_000_000 };
    for text in ["0", "auto", "AUTO"] {
        assert_eq!(read::<TokensOrAuto>(text, &range).expect(text).get(), None, "{text}");
    }
    assert_eq!(read("200000", &range), Ok(TokensOrAuto::Tokens(200_000)));
    assert_eq!(read::<TokensOrAuto>("5", &range), Err("is less than 1024".to_owned()));
    assert!(read::<TokensOrAuto>("200k", &range).is_err());
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

#[test]
fn a_cap_that_is_no_number_is_no_cap_and_told_of() {
    for (text, cap) in [("4", 4), (" 4 ", 4), ("007", 7), ("99999999999999999999", u32::MAX)] {
        assert_eq!(read::<Cap>(text, &Uncapped::None), Ok(Cap::At(cap)), "{text}");
    }
    assert_eq!(read("none", &Uncapped::None), Ok(Cap::None));
    assert_eq!(read("Auto", &Uncapped::Auto("x")), Ok(Cap::Auto("x")));
    for text in ["0", "00", "-1", "abc", "4.5", "1e3", "+4", "auto", "٣", "[4]", "true"] {
        let cap = read::<Cap>(text, &Uncapped::None).expect("never an error");
        assert_eq!((cap.get(), cap.invalid()), (None, Some(format!("{text:?}").as_str())));
        assert_eq!(cap.to_value(), Value::Text("none".to_owned()), "{text}");
        assert!(cap.doubt().is_some(), "{text}");
    }
    let odd = Cap::read(Input::Text(OsStr::from_bytes(b"\xff")), &Uncapped::None).expect("a cap");
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

proptest! {
    #[test]
    fn no_key_panics_on_any_text(text in any::<String>()) {
        for key in crate::schema().keys() {
            drop(key.read_untyped(Input::Text(OsStr::new(&text))));
        }
    }

    #[test]
    fn no_key_panics_on_any_bytes(bytes in any::<Vec<u8>>()) {
        for key in crate::schema().keys() {
            drop(key.read_untyped(Input::Text(OsStr::from_bytes(&bytes))));
        }
    }
}
