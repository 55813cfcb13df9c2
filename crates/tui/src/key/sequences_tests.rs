use proptest::prelude::*;

use super::*;
use crate::key::{KeyCode, KeyDecoder, KeyPress, TerminalInput};

/// A decoder, and a clock that goes on only when the test says so.
#[derive(Default)]
struct Line {
    decoder: KeyDecoder,
    inputs: Vec<TerminalInput>,
}

impl Line {
    /// Returns one on which a paste has started.
    fn with_paste(text: &str) -> Self {
        let mut line = Self::default();
        line.send(PASTE_BEGIN);
        line.send(text.as_bytes());
        line
    }

    fn send(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes, &mut self.inputs);
    }

    /// Lets time go by in which nothing comes.
    fn wait(&mut self, time: Duration) {
        let mut left = time;
        while let Some(timeout) = self.decoder.timeout().filter(|timeout| *timeout <= left) {
            left -= timeout;
            self.decoder.silence(&mut self.inputs);
        }
    }

    fn take_inputs(&mut self) -> Vec<TerminalInput> {
        std::mem::take(&mut self.inputs)
    }
}

fn key(c: char) -> TerminalInput {
    TerminalInput::Key(KeyPress::plain(KeyCode::Char(c)))
}

fn pasted(text: &str) -> TerminalInput {
    TerminalInput::Paste(text.to_owned())
}

const LONG: Duration = Duration::from_mins(1);

#[test]
fn a_paste_that_never_ends_is_handed_over_and_takes_no_later_key() {
    let mut line = Line::with_paste("words\rand more");
    assert_eq!(line.take_inputs(), []);
    line.wait(LONG);
    assert_eq!(line.take_inputs(), [pasted("words\nand more")]);
    assert_eq!(line.decoder.timeout(), None, "nothing is reported twice");
    for c in ['x', 'é', '日'] {
        line.send(c.to_string().as_bytes());
        assert_eq!(line.take_inputs(), [key(c)]);
    }
    line.send(b"\r");
    assert_eq!(line.take_inputs(), [TerminalInput::Key(KeyPress::plain(KeyCode::Enter))]);
}

#[test]
fn keys_alone_end_a_paste_that_is_silent() {
    let control_c = TerminalInput::Key(KeyPress::control('c'));
    let enter = TerminalInput::Key(KeyPress::plain(KeyCode::Enter));
    let up = TerminalInput::Key(KeyPress::plain(KeyCode::Up));
    let cases: [(&[u8], Vec<TerminalInput>); 6] = [
        (b"\x03", vec![control_c.clone()]),
        (b"\x03\x03", vec![control_c.clone(), control_c.clone()]),
        (b"\x1b[99;5u", vec![control_c]),
        (b"\r", vec![enter]),
        (b"\x1b[A\x1b[A", vec![up.clone(), up]),
        (b"\x1b[O", vec![TerminalInput::Focused(false)]),
    ];
    for (bytes, expected) in cases {
        for text in ["", "words", "half an end\x1b[20", "half an end\x1b"] {
            let mut line = Line::with_paste(text);
            line.wait(LONG);
            line.take_inputs();
            line.send(bytes);
            assert_eq!(line.take_inputs(), expected, "{} after {text:?}", bytes.escape_ascii());
            line.send(b"xy");
            assert_eq!(line.take_inputs(), [key('x'), key('y')], "it is over");
        }
    }
}

#[test]
fn escape_ends_a_paste_that_is_silent_when_nothing_follows_it() {
    let mut line = Line::with_paste("words");
    line.wait(LONG);
    line.take_inputs();
    line.send(b"\x1b");
    assert_eq!(line.take_inputs(), []);
    line.wait(LONG);
    assert_eq!(line.take_inputs(), [TerminalInput::Key(KeyPress::plain(KeyCode::Escape))]);
    line.send(b"x");
    assert_eq!(line.take_inputs(), [key('x')]);
}

#[test]
fn another_paste_ends_one_that_is_silent() {
    let mut line = Line::with_paste("one");
    line.wait(LONG);
    line.send(b"\x1b[200~two\x1b[201~x");
    assert_eq!(line.take_inputs(), [pasted("one"), pasted("two"), key('x')]);
}

#[test]
fn the_usual_pauses_of_a_line_do_not_divide_a_paste() {
    let mut line = Line::with_paste("one\r");
    for part in ["t", "\r", "wo\r", "\x03", "three"] {
        line.wait(Duration::from_millis(1_900));
        line.send(part.as_bytes());
    }
    line.wait(Duration::from_millis(1_900));
    line.send(b"\x1b[201~");
    assert_eq!(line.take_inputs(), [pasted("one\nt\nwo\n\x03three")]);
}

#[test]
fn what_comes_of_a_paste_after_a_long_pause_is_text_and_never_enter() {
    let mut line = Line::with_paste("rm -r \rbui");
    line.wait(LONG);
    line.send(b"ld\r\rls\r");
    line.wait(LONG);
    line.send(b"end\r\x1b[201~x");
    let parts = [pasted("rm -r \nbui"), pasted("ld\n\nls\n"), pasted("end\n"), key('x')];
    assert_eq!(line.take_inputs(), parts);
}

#[test]
fn an_end_that_comes_late_ends_nothing_else_however_it_is_cut() {
    for cut in 0..=PASTE_END.len() {
        let mut line = Line::with_paste("words");
        line.send(&PASTE_END[..cut]);
        line.wait(LONG);
        let (now, later) = PASTE_END[cut..].split_at(usize::from(cut < PASTE_END.len()));
        line.send(now);
        line.send(later);
        line.send(b"x");
        assert_eq!(line.take_inputs(), [pasted("words"), key('x')], "cut at {cut}");
    }
}

#[test]
fn a_character_is_whole_though_a_paste_pauses_within_it() {
    for cut in 1..3 {
        let mut line = Line::with_paste("日");
        line.send(&"本".as_bytes()[..cut]);
        line.wait(LONG);
        line.send(&"本".as_bytes()[cut..]);
        line.send("語\x1b[201~".as_bytes());
        assert_eq!(line.take_inputs(), [pasted("日"), pasted("本語")], "cut at {cut}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Parts of at least two characters, as a line that was stuck hands them out.
    #[test]
    fn no_word_of_a_paste_is_lost_or_a_key_wherever_it_pauses(
        parts in prop::collection::vec("[a-zé日 \r]{2,9}", 1..9),
        pauses in prop::collection::vec(0u64..5_000, 9),
    ) {
        let mut line = Line::with_paste("");
        for (part, pause) in parts.iter().zip(pauses) {
            line.send(part.as_bytes());
            line.wait(Duration::from_millis(pause));
        }
        line.send(PASTE_END);
        let mut text = String::new();
        for input in line.take_inputs() {
            let TerminalInput::Paste(part) = input else { panic!("{input:?} after {text:?}") };
            text.push_str(&part);
        }
        prop_assert_eq!(text, parts.concat().replace('\r', "\n"));
    }
}
