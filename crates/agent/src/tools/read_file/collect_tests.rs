use super::*;

mod collect {
    use proptest::prelude::*;

    use super::*;

    /// Hands bytes over in pieces of this size.
    fn collected(bytes: &[u8], offset: usize, limit: usize, piece: usize) -> Collector {
        let mut collector = Collector::new(offset, limit, 2_000);
        for piece in bytes.chunks(piece) {
            if collector.take(piece) == Flow::Enough {
                collector.finish(false);
                return collector;
            }
        }
        collector.finish(true);
        collector
    }

    #[test]
    fn only_the_lines_asked_for_are_kept_and_all_are_counted() {
        let collector = collected(b"a\r\nb\nc\nd", 2, 2, 3);
        assert_eq!(collector.lines, [b"b", b"c"]);
        assert_eq!((collector.total(), collector.counted), (4, true));
    }

    #[test]
    fn a_long_line_is_kept_in_part_only() {
        let long = vec![b'x'; 10 << 20];
        let collector = collected(&long, 1, 10, 64 << 10);
        assert_eq!(collector.lines[0].len(), (2_000 + BEYOND) * 4);
        assert_eq!(collector.total(), 1);
    }

    #[test]
    fn a_line_is_not_cut_inside_of_a_character() {
        let long = "żółw".repeat(10_000);
        let collector = collected(long.as_bytes(), 1, 1, 999);
        assert!(std::str::from_utf8(&collector.lines[0]).is_ok());
    }

    #[test]
    fn the_lines_of_a_large_file_are_bounded_and_so_is_the_counting() {
        let piece = "0123456789\n".repeat(6_000);
        let mut collector = Collector::new(1, usize::MAX, 2_000);
        let mut taken = 0_u64;
        while collector.take(piece.as_bytes()) == Flow::More {
            taken += piece.len() as u64;
            assert!(taken < 2 * COUNTED);
        }
        collector.finish(false);
        let kept: usize = collector.lines.iter().map(Vec::len).sum();
        assert!(kept < MAX_KEPT + 10);
        assert!(!collector.counted);
        assert!(taken >= COUNTED);
    }

    #[test]
    fn a_binary_file_is_given_up_at_once() {
        let mut bytes = vec![b'a'; LOOKED_AT];
        bytes[100] = 0;
        let mut collector = Collector::new(1, 10, 2_000);
        assert_eq!(collector.take(&bytes), Flow::Enough);
        assert_eq!(collector.content, ContentKind::Binary);
    }

    #[test]
    fn the_mark_at_the_start_is_no_part_of_the_first_line() {
        assert_eq!(collected(b"\xef\xbb\xbfa\n", 1, 1, 1).lines, [b"a"]);
    }

    proptest! {
        #[test]
        fn however_a_file_comes_its_lines_are_the_same(
            text in "[a-c\r\n]{0,200}", piece in 1_usize..50, offset in 1_usize..20, limit in 1_usize..20,
        ) {
            let collector = collected(text.as_bytes(), offset, limit, piece);
            let lines: Vec<&str> = text.split_terminator('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
            let wanted: Vec<Vec<u8>> = lines.iter().skip(offset - 1).take(limit).map(|line| line.as_bytes().to_vec()).collect();
            prop_assert_eq!(&collector.lines, &wanted);
            prop_assert_eq!(collector.total(), lines.len() as u64);
        }
    }
}

mod binary {
    use super::*;

    #[test]
    fn text_in_any_encoding_without_nul_is_text() {
        for text in [&b""[..], b"plain\n", b"caf\xe9\n", "żółć".as_bytes(), b"\x1b[31mred\x1b[0m\n"]
        {
            assert_eq!(content(text), ContentKind::Text, "{text:?}");
        }
    }

    #[test]
    fn images_are_distinguished_from_other_binary_files() {
        assert_eq!(content(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), ContentKind::Image);
        assert_eq!(content(b"RIFF\0\0\0\0WEBPVP8 "), ContentKind::Image);
        assert_eq!(content(b"\x7fELF\x02\x01\x01\0\0"), ContentKind::Binary);
        assert_eq!(content(b"\x01\x02\x03\x04abc"), ContentKind::Binary);
        assert_eq!(content(b"BM is how this text begins"), ContentKind::Text);
    }
}
