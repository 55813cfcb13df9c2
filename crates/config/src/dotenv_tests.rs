use proptest::prelude::*;

use super::*;

fn entries(text: &str) -> Vec<(String, String, usize)> {
    let parsed = DotEnv::parse(text.as_bytes());
    assert_eq!(parsed.malformed, [], "{text:?}");
    let entry = |entry: &DotenvEntry| {
        let value = entry.value().to_str().expect("UTF-8").to_owned();
        (entry.name.to_string(), value, entry.line)
    };
    parsed.entries.iter().map(entry).collect()
}

fn value(line: &str) -> String {
    entries(line).remove(0).1
}

#[test]
fn names_and_values_are_read() {
    let text = "\u{feff}# about\n\nA=1\r\n  export B = two words # comment\nexport=3\nC=\n";
    let expected = [("A", "1", 3), ("B", "two words", 4), ("export", "3", 5), ("C", "", 6)];
    assert_eq!(entries(text), expected.map(|(n, v, l)| (n.to_owned(), v.to_owned(), l)));
}

#[test]
fn unquoted_values_keep_what_is_no_comment() {
    assert_eq!(value("A=a#b"), "a#b");
    assert_eq!(value("A=a=b"), "a=b");
    assert_eq!(value("A=#b"), "");
    assert_eq!(value("A=$HOME/x"), "$HOME/x");
    assert_eq!(value("A=it's"), "it's");
}

#[test]
fn quotes_keep_blanks_comments_and_lines() {
    assert_eq!(value("A=' a # b ' # c"), " a # b ");
    assert_eq!(value(r#"A="a\n\"b\"\\\$\x""#), "a\n\"b\"\\$\\x");
    assert_eq!(value(r"A='a\n'"), r"a\n");
    let text = "KEY=\"one\ntwo\n\"\nB=1\n";
    let expected = [("KEY", "one\ntwo\n", 1), ("B", "1", 4)];
    assert_eq!(entries(text), expected.map(|(n, v, l)| (n.to_owned(), v.to_owned(), l)));
}

#[test]
fn malformed_lines_are_reported_and_skipped() {
    let parsed =
        DotEnv::parse(b"A=1\nno assignment\n2X=1\nB='x' y\n=3\nC=\"open\nD=4\n\xff=1\nE=a\0b\n");
    let names: Vec<_> = parsed.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["A", "D"]);
    let lines: Vec<_> = parsed.malformed.iter().map(|malformed| malformed.line).collect();
    assert_eq!(lines, [2, 3, 4, 5, 6, 8, 9]);
}

#[test]
fn the_last_line_of_a_name_wins() {
    let parsed = DotEnv::parse(b"A=1\nA=2\n");
    assert_eq!(parsed.get("A").map(|entry| entry.line), Some(2));
}

#[test]
fn values_need_not_be_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let parsed = DotEnv::parse(b"A=\xff\xfe\n");
    assert_eq!(parsed.get("A").map(|entry| entry.value().as_bytes()), Some(&b"\xff\xfe"[..]));
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in any::<Vec<u8>>()) {
        DotEnv::parse(&bytes);
    }

    #[test]
    fn quoted_text_reads_back(text in "[^\0]*") {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$");
        let parsed = DotEnv::parse(format!("A=\"{escaped}\"\nB=1").as_bytes());
        prop_assert_eq!(parsed.get("A").map(DotenvEntry::value), Some(OsStr::new(&text)));
        prop_assert!(parsed.get("B").is_some());
    }
}
