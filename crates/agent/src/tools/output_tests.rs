use super::*;

mod keep {
    use super::*;

    fn kept(limit: usize, pieces: &[&str]) -> KeptOutput {
        let mut keep = HeadTail::new(limit);
        for piece in pieces {
            keep.push(piece);
        }
        keep.finish()
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let text = "one\ntwo\nthree".to_owned();
        assert_eq!(kept(13, &["one\n", "two\nthree"]), KeptOutput { text, total: 13, omitted: 0 });
        assert_eq!(kept(0, &[]).text, "");
    }

    #[test]
    fn beginning_and_end_are_kept_and_the_rest_is_counted() {
        let lines: Vec<String> = (0..10_000).map(|n| format!("{n}\n")).collect();
        let text = lines.concat();
        let pieces: Vec<&str> = [text.as_str()].to_vec();
        let whole = kept(1000, &pieces);
        let bytes: Vec<String> = text.chars().map(String::from).collect();
        let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
        assert_eq!(whole, kept(1000, &bytes), "however it came");
        let (head, rest) = whole.text.split_once("[… ").unwrap();
        let (marker, tail) = rest.split_once(" …]\n").unwrap();
        assert!(text.starts_with(head) && head.ends_with('\n'));
        assert!(text.ends_with(tail) && tail.starts_with(|c: char| c.is_ascii_digit()));
        assert_eq!(whole.omitted, (text.len() - head.len() - tail.len()) as u64);
        assert_eq!(marker, format!("{} of {} bytes left out here", whole.omitted, text.len()));
        assert!(head.len() > 350 && tail.len() > 550 && head.len() + tail.len() <= 1000);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        let text = "€".repeat(1000);
        for limit in 0..40 {
            let kept = kept(limit, &[&text]);
            assert!(!kept.text.contains('\u{fffd}'), "{limit}");
            let shown = kept.text.matches('€').count() * 3;
            assert_eq!(kept.omitted, 3000 - shown as u64, "{limit}");
        }
    }
}

mod plain {
    use super::*;

    fn plain(pieces: &[&[u8]]) -> String {
        let mut plain = PlainText::default();
        let mut out = String::new();
        for piece in pieces {
            plain.push(piece, &mut out);
        }
        plain.finish(&mut out);
        out
    }

    #[test]
    fn escape_sequences_and_controls_are_left_out() {
        let printed = "\u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{07}a\u{1b}]8;;u\u{1b}\\b\
        \u{1b}(Bc\u{1b}7d\u{1b}Pq#0\u{1b}\\e\u{9b}31mf\0g\u{8}h\ti\r\nj\u{1b}[?25l";
        assert_eq!(plain(&[printed.as_bytes()]), "red abcdefgh\ti\r\nj");
    }

    #[test]
    fn pieces_may_be_cut_anywhere() {
        let printed = "\u{1b}[31mä€𝄞\u{1b}]0;x\u{1b}\\z".as_bytes();
        let bytes: Vec<&[u8]> = printed.chunks(1).collect();
        assert_eq!(plain(&bytes), "ä€𝄞z");
    }

    #[test]
    fn what_is_no_text_is_shown_as_such() {
        assert_eq!(plain(&[b"a\xffb", b"\xe2\x82"]), "a\u{fffd}b\u{fffd}");
        assert_eq!(plain(&[b"\xe2", b"x"]), "\u{fffd}x");
    }

    #[test]
    fn a_string_without_an_end_swallows_no_more_than_its_line() {
        assert_eq!(plain(&[b"a\x1b]0;never ends\nb\n"]), "a\nb\n");
        let long = [b"\x1bP".as_slice(), &[b'x'; 2 * LONGEST_STRING]].concat();
        assert!(plain(&[&long]).len() >= LONGEST_STRING - 1);
    }
}
