use super::*;

mod entries {
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
            (
                "# Heading\n\n- a\n  - b\n\n\n§\n  indented",
                &["# Heading\n\n- a\n  - b", "  indented"],
            ),
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
}

mod clean {
    use super::*;

    #[test]
    fn what_nobody_sees_is_left_out_and_what_is_written_stays() {
        let hidden = "a\u{1b}[2Jb\u{0}c\u{202e}d\u{200b}e\u{feff}f\u{e0041}g\u{7f}h\u{9b}i";
        assert_eq!(clean(hidden), "a[2Jbcdefghi");
        assert_eq!(clean("  one \r\ntwo\rthree\u{2028}four\n\n"), "one\ntwo\nthree\nfour");
        let kept = "Zürich 東京 👩\u{200d}💻 نمی\u{200c}خواهم\n  - indented";
        assert_eq!(clean(kept), kept);
        assert_eq!(clean("\u{200b}\t \u{1}"), "");
    }

    #[test]
    fn no_text_hides_in_marks_of_letters_or_in_letters_that_are_blank() {
        let marks: String = ('\u{fe00}'..='\u{fe0d}').chain('\u{e0100}'..='\u{e01ef}').collect();
        assert_eq!(clean(&format!("a{marks}b")), "ab");
        assert_eq!(clean(&format!("ok{}", "\u{fe0f}\u{200b}\u{fe0e}".repeat(40))), "ok\u{fe0f}");
        assert_eq!(clean("a\u{61c}b\u{3164}c\u{34f}d\u{2800}e\u{1160}f"), "abcdef");
        assert_eq!(clean(&format!("ok{}", "\u{200c}\u{200d}".repeat(40))), "ok\u{200c}");
        let pictures = "❤\u{fe0f} ☎\u{fe0e} ❤\u{fe0f}\u{200d}🔥";
        assert_eq!(clean(pictures), pictures);
    }
}
