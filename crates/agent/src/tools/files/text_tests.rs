use super::*;

mod text {
    use proptest::prelude::*;

    use super::*;

    fn change(range: Range<usize>, text: &str) -> TextChange {
        TextChange { range, text: text.to_owned() }
    }

    /// Replaces the only occurrence of a text in the view.
    fn replaced(bytes: &[u8], old: &str, new: &str) -> Result<Vec<u8>, StrayBytes> {
        let text = FileText::new(bytes.to_vec());
        let start = text.view().find(old).unwrap();
        text.edited(&[change(start..start + old.len(), new)])
    }

    #[test]
    fn the_view_has_no_mark_no_carriage_returns_and_only_text() {
        let text = FileText::new(b"\xef\xbb\xbfa\r\ncaf\xe9\r\nlone\rcr\n".to_vec());
        assert_eq!(text.view(), "a\ncaf\u{fffd}\nlone\rcr\n");
        assert_eq!((text.newline(), text.strays()), (Newline::Crlf, 1));
    }

    #[test]
    fn an_edit_leaves_bytes_that_are_no_text_alone() {
        let done = replaced(b"caf\xe9 one\nna\xefve two\n", "one", "eins").unwrap();
        assert_eq!(done, b"caf\xe9 eins\nna\xefve two\n");
    }

    #[test]
    fn an_edit_that_repeats_such_bytes_as_they_are_shown_keeps_them() {
        let done = replaced(
            b"x caf\xe9 one na\xef\n",
            "caf\u{fffd} one na\u{fffd}",
            "the caf\u{fffd} 1, na\u{fffd}!",
        );
        assert_eq!(done.unwrap(), b"x the caf\xe9 1, na\xef!\n");
    }

    #[test]
    fn an_edit_that_would_have_to_invent_such_bytes_is_refused() {
        assert_eq!(replaced(b"caf\xe9 one\n", "one", "caf\u{fffd}"), Err(StrayBytes));
    }

    #[test]
    fn the_character_itself_may_be_written_into_a_file_of_text() {
        assert_eq!(replaced(b"one\n", "one", "\u{fffd}").unwrap(), "\u{fffd}\n".as_bytes());
    }

    #[test]
    fn new_lines_end_like_the_lines_around_them() {
        assert_eq!(replaced(b"a\r\nb\r\nc\r\n", "b", "x\ny").unwrap(), b"a\r\nx\r\ny\r\nc\r\n");
        assert_eq!(replaced(b"a\nb\n", "b\n", "x\ny\n").unwrap(), b"a\nx\ny\n");
    }

    #[test]
    fn lines_that_an_edit_repeats_keep_their_own_ends() {
        let done = replaced(b"a\r\nb\nc\nd\ne\n", "a\nb\nc", "a\nB\nc").unwrap();
        assert_eq!(done, b"a\r\nB\nc\nd\ne\n");
    }

    #[test]
    fn the_mark_stays_at_the_start() {
        assert_eq!(replaced(b"\xef\xbb\xbfa\n", "a", "b").unwrap(), b"\xef\xbb\xbfb\n");
    }

    proptest! {
        #[test]
        fn a_file_without_changes_is_itself(bytes: Vec<u8>) {
            prop_assert_eq!(FileText::new(bytes.clone()).edited(&[]).unwrap(), bytes);
        }

        #[test]
        fn replacing_a_piece_by_itself_changes_no_byte(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), any::<u8>(), Just(b'a')], 0..60),
            from: prop::sample::Index, to: prop::sample::Index,
        ) {
            let text = FileText::new(bytes.clone());
            let mut borders: Vec<usize> = text.view().char_indices().map(|(at, _)| at).collect();
            borders.push(text.view().len());
            let (a, b) = (borders[from.index(borders.len())], borders[to.index(borders.len())]);
            let range = a.min(b)..a.max(b);
            let same = text.view()[range.clone()].to_owned();
            prop_assert_eq!(text.edited(&[TextChange { range, text: same }]).unwrap(), bytes);
        }
    }
}

mod lines {
    use super::*;

    #[test]
    fn the_end_of_the_last_line_starts_no_other() {
        for (text, expected) in [
            ("", vec![]),
            ("a", vec!["a"]),
            ("a\n", vec!["a"]),
            ("\n", vec![""]),
            ("a\n\n", vec!["a", ""]),
            ("a\n\nb", vec!["a", "", "b"]),
        ] {
            let lines = TextLines::new(text);
            assert_eq!(lines.slice(0..lines.len()), expected, "{text:?}");
            assert_eq!(pieces(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_place_is_in_the_line_that_holds_it() {
        let lines = TextLines::new("ab\n\ncd\n");
        let found: Vec<usize> = (0..8).map(|place| lines.at(place)).collect();
        assert_eq!(found, [0, 0, 0, 1, 2, 2, 2, 2]);
        assert_eq!((lines.end(2), lines.start(3)), (6, 7));
    }
}

mod numbered {
    use super::*;

    #[test]
    fn only_numbers_one_behind_the_other_count() {
        assert_eq!(numbered_lines("1|a\n2|b\n3|\n"), Some(3));
        assert_eq!(numbered_lines("  99|a\n 100|b"), Some(2));
        assert_eq!(numbered_lines("7|a"), Some(1));
        for text in ["", "1|a\nb\n", "3|a\n1|b\n", "a|b\nc|d\n", "1|x\n\n2|y\n", "-1|a\n0|b"] {
            assert_eq!(numbered_lines(text), None, "{text:?}");
        }
        assert_eq!(numbered_lines(&format!("{0}|a\n{0}|b", u64::MAX)), None);
    }
}
