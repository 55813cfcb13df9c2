use proptest::prelude::*;

use super::*;

const PASTE: &[u8] = sequences::PASTE_BEGIN;
const PASTE_END: &[u8] = b"\x1b[201~";

/// Returns what comes of some bytes, and of silence after them.
fn decoded(bytes: &[u8]) -> Vec<TerminalInput> {
    let mut decoder = KeyDecoder::default();
    let mut inputs = Vec::new();
    decoder.feed(bytes, &mut inputs);
    decoder.silence(&mut inputs);
    inputs
}

fn key(bytes: &[u8]) -> KeyPress {
    match &decoded(bytes)[..] {
        [TerminalInput::Key(key)] => *key,
        other => panic!("{bytes:?} gave {other:?}"),
    }
}

fn held(code: KeyCode, names: &str) -> KeyPress {
    let modifiers = Modifiers {
        control: names.contains('c'),
        alt: names.contains('a'),
        shift: names.contains('s'),
    };
    KeyPress { code, modifiers }
}

#[test]
fn keys_of_all_terminals_are_known() {
    use KeyCode::{
        BackTab, Backspace, Char, Delete, Down, End, Enter, Escape, Home, Left, PageDown, Right,
        Tab, Up,
    };
    let cases: &[(&[u8], KeyPress)] = &[
        (b"a", held(Char('a'), "")),
        (b"A", held(Char('A'), "")),
        ("é".as_bytes(), held(Char('é'), "")),
        ("日".as_bytes(), held(Char('日'), "")),
        ("👩".as_bytes(), held(Char('👩'), "")),
        (b"\r", held(Enter, "")),
        (b"\n", held(Char('j'), "c")),
        (b"\t", held(Tab, "")),
        (b"\x7f", held(Backspace, "")),
        (b"\x03", KeyPress::control('c')),
        (b"\x1f", KeyPress::control('_')),
        (b"\x1c", KeyPress::control('\\')),
        (b"\0", KeyPress::control(' ')),
        (b"\x1b[A", held(Up, "")),
        (b"\x1bOB", held(Down, "")),
        (b"\x1b[H", held(Home, "")),
        (b"\x1b[4~", held(End, "")),
        (b"\x1b[3~", held(Delete, "")),
        (b"\x1b[6~", held(PageDown, "")),
        (b"\x1b[Z", held(BackTab, "")),
        (b"\x1b[1;5C", held(Right, "c")),
        (b"\x1b[1;3D", held(Left, "a")),
        (b"\x1b[15~", held(KeyCode::F(5), "")),
        (b"\x1b[[A", held(KeyCode::F(1), "")),
        (b"\x1bOP", held(KeyCode::F(1), "")),
        // Alt, as Escape before the key.
        (b"\x1bb", held(Char('b'), "a")),
        (b"\x1b\r", held(Enter, "a")),
        (b"\x1b\x7f", held(Backspace, "a")),
        ("\x1bé".as_bytes(), held(Char('é'), "a")),
        (b"\x1b\x1b[A", held(Up, "a")),
        // Kitty's protocol, and xterm's.
        (b"\x1b[13;2u", held(Enter, "s")),
        (b"\x1b[27;2;13~", held(Enter, "s")),
        (b"\x1b[13;3u", held(Enter, "a")),
        (b"\x1b[27;5;13~", held(Enter, "c")),
        (b"\x1b[27u", held(Escape, "")),
        (b"\x1b[99;5u", KeyPress::control('c')),
        (b"\x1b[99;133u", KeyPress::control('c')),
        (b"\x1b[97;2u", held(Char('A'), "")),
        (b"\x1b[97;6u", held(Char('a'), "cs")),
        (b"\x1b[98;3u", held(Char('b'), "a")),
        (b"\x1b[1089::99;5u", KeyPress::control('c')),
        (b"\x1b[1076::108;3u", held(Char('l'), "a")),
        (b"\x1b[1089:1057:99;2u", held(Char('С'), "")),
        (b"\x1b[45:95;6u", KeyPress::control('_')),
        (b"\x1b[98:66;4u", held(Char('B'), "a")),
        (b"\x1b[9;2u", held(BackTab, "")),
        (b"\x1b[57414u", held(Enter, "")),
        (b"\x1b[127;5u", held(Backspace, "c")),
    ];
    for (bytes, expected) in cases {
        assert_eq!(key(bytes), *expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn what_is_no_key_for_us_is_nothing() {
    let others: &[&[u8]] = &[
        b"\x1b[97;9u",    // with Super
        b"\x1b[97;1:3u",  // let go
        b"\x1b[57441;2u", // Shift alone
        b"\x1b[?62;22c",  // answers of the terminal
        b"\x1b[12;40R",
        b"\x1b]11;rgb:0000/0000/0000\x1b\\",
        b"\x1bP1$r0m\x1b\\",
        b"\x1b_Gi=31;OK\x1b\\",
        b"\x1b[<0;10;10M",
        b"\x1b[?1;2z",
        b"\x1b[2;3;4;5;6x",
        b"\xff",
        b"\xc3",
    ];
    for bytes in others {
        let mut with_key = bytes.to_vec();
        with_key.push(b'x');
        assert_eq!(
            decoded(&with_key),
            [TerminalInput::Key(KeyPress::plain(KeyCode::Char('x')))],
            "{}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn a_lone_escape_is_reported_after_a_silence_and_other_keys_at_once() {
    let mut decoder = KeyDecoder::default();
    let mut inputs = Vec::new();
    decoder.feed(b"\x1b", &mut inputs);
    assert_eq!((inputs.len(), decoder.timeout()), (0, Some(ESCAPE_TIMEOUT)));
    decoder.silence(&mut inputs);
    assert_eq!(inputs, [TerminalInput::Key(KeyPress::plain(KeyCode::Escape))]);
    assert_eq!(decoder.timeout(), None);
    decoder.feed(b"x", &mut inputs);
    assert_eq!((inputs.len(), decoder.timeout()), (2, None));
}

#[test]
fn keys_that_look_like_the_beginning_of_a_sequence_are_keys() {
    assert_eq!(key(b"\x1b["), alt('['));
    assert_eq!(key(b"\x1bO"), alt('O'));
    assert_eq!(key(b"\x1b]"), alt(']'));
    assert_eq!(key(b"\x1bP"), alt('P'));
    let escape = TerminalInput::Key(KeyPress::plain(KeyCode::Escape));
    assert_eq!(decoded(b"\x1b\x1b"), [escape.clone(), escape.clone()]);
    assert_eq!(decoded(b"\x1b\x1bx"), [escape, TerminalInput::Key(alt('x'))]);
}

#[test]
fn a_sequence_that_never_ends_loses_no_later_key() {
    for broken in [&b"\x1b]0;never"[..], b"\x1b[1;2", b"\x1bPq"] {
        let mut decoder = KeyDecoder::default();
        let mut inputs = Vec::new();
        decoder.feed(broken, &mut inputs);
        decoder.silence(&mut inputs);
        decoder.feed(b"x", &mut inputs);
        assert_eq!(inputs, [TerminalInput::Key(KeyPress::plain(KeyCode::Char('x')))]);
    }
}

#[test]
fn focus_is_reported() {
    assert_eq!(
        decoded(b"\x1b[I\x1b[O"),
        [TerminalInput::Focused(true), TerminalInput::Focused(false)]
    );
}

#[test]
fn a_paste_is_one_and_its_words_are_no_keys() {
    let bytes = b"a\x1b[200~two\r\nlines\rand \x03\x1b[A \x1b[20\x1b[201~b";
    let expected = [
        TerminalInput::Key(KeyPress::plain(KeyCode::Char('a'))),
        TerminalInput::Paste("two\nlines\nand \x03\x1b[A \x1b[20".to_owned()),
        TerminalInput::Key(KeyPress::plain(KeyCode::Char('b'))),
    ];
    assert_eq!(decoded(bytes), expected);
}

#[test]
fn escape_before_a_paste_is_escape_and_a_paste() {
    let escape = TerminalInput::Key(KeyPress::plain(KeyCode::Escape));
    let paste = TerminalInput::Paste("rm\n".to_owned());
    assert_eq!(decoded(b"\x1b\x1b[200~rm\r\x1b[201~"), [escape.clone(), paste]);
    assert_eq!(decoded(b"\x1b\x1b[O"), [escape, TerminalInput::Focused(false)]);
}

#[test]
fn half_a_character_has_the_time_of_a_slow_line() {
    let mut decoder = KeyDecoder::default();
    let mut inputs = Vec::new();
    for part in [&"é".as_bytes()[..1], &"日".as_bytes()[..2], b"\x1b[", b"\x1bO"] {
        decoder.feed(part, &mut inputs);
        assert_eq!(decoder.timeout(), Some(SEQUENCE_TIMEOUT), "{}", part.escape_ascii());
        decoder.silence(&mut inputs);
    }
}

#[test]
fn a_long_paste_costs_each_byte_once() {
    let text = "a line of some length, as people paste them\n".repeat(100_000);
    let mut decoder = KeyDecoder::default();
    let mut inputs = Vec::new();
    decoder.feed(PASTE, &mut inputs);
    let begun = std::time::Instant::now();
    // A terminal hands out less than it was given.
    text.as_bytes().chunks(512).for_each(|piece| decoder.feed(piece, &mut inputs));
    decoder.feed(PASTE_END, &mut inputs);
    assert_eq!(inputs, [TerminalInput::Paste(text)]);
    // 4.4 MB in 8,600 pieces: looking at all of it for each would be 19 GB.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_comes_breaks_the_decoder(pieces in prop::collection::vec(prop::collection::vec(
        prop_oneof![Just(0x1b), Just(b'['), Just(b';'), Just(b'~'), Just(b']'), any::<u8>()], 0..12), 0..12))
    {
        let mut decoder = KeyDecoder::default();
        let mut inputs = Vec::new();
        for piece in &pieces {
            decoder.feed(piece, &mut inputs);
        }
        decoder.silence(&mut inputs);
        decoder.feed(PASTE_END, &mut inputs);
        inputs.clear();
        decoder.feed(b"x", &mut inputs);
        prop_assert_eq!(inputs, [TerminalInput::Key(KeyPress::plain(KeyCode::Char('x')))]);
    }

    #[test]
    fn it_does_not_matter_how_the_bytes_are_cut(cuts in prop::collection::vec(1usize..7, 1..40)) {
        let bytes = "é\x1b[A日\x1b[13;2u\x1b[200~pa\r\nste\x1b[201~\x1bb\x1b[I\x1b]11;x\x07\x1b[27;2;13~👩q".as_bytes();
        let whole = decoded(bytes);
        let mut decoder = KeyDecoder::default();
        let mut inputs = Vec::new();
        let mut rest = bytes;
        for cut in cuts.iter().cycle() {
            let (piece, left) = rest.split_at((*cut).min(rest.len()));
            decoder.feed(piece, &mut inputs);
            rest = left;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(inputs, whole);
    }
}
