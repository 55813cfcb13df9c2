use proptest::prelude::*;

use super::*;

fn of(entries: &[&str]) -> Entries {
    Entries(entries.iter().map(|entry| (*entry).to_owned()).collect())
}

#[test]
fn whatever_a_person_wrote_is_read_as_notes() {
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        ("\n \n§\n\n§\n", &[]),
        ("one", &["one"]),
        ("one\n§\ntwo\n", &["one", "two"]),
        ("\u{feff}one\r\n  § \r\ntwo\r\nlines", &["one", "two\nlines"]),
        ("§ 5 of the law\n§§\nx § y", &["§ 5 of the law\n§§\nx § y"]),
        ("# Heading\n\n- a\n  - b\n\n\n§\n  indented", &["# Heading\n\n- a\n  - b", "  indented"]),
    ];
    for (text, expected) in cases {
        assert_eq!(Entries::parse(text), of(expected), "{text:?}");
    }
}

#[test]
fn characters_are_counted_with_what_stands_between_notes() {
    assert_eq!(of(&[]).characters(), 0);
    assert_eq!(of(&["é東"]).characters(), 2);
    assert_eq!(of(&["ab", "c"]).characters(), "ab\n§\nc".chars().count());
    assert_eq!(of(&["ab", "c", "d"]).within(6), of(&["ab", "c"]));
    assert_eq!(of(&["ab", "c"]).within(1), of(&[]));
}

proptest! {
    #[test]
    fn notes_are_read_as_they_were_written(texts in proptest::collection::vec("[ -~é§\n]{0,40}", 0..6)) {
        let entries = Entries::parse(&texts.join(JOINT));
        prop_assert_eq!(&Entries::parse(&entries.to_text()), &entries);
        prop_assert!(entries.iter().all(|entry| !entry.trim().is_empty()));
        prop_assert!(entries.iter().all(|entry| !entry.lines().any(is_separator)));
        let written = entries.to_text();
        prop_assert_eq!(entries.characters(), written.trim_end_matches('\n').chars().count());
    }
}
