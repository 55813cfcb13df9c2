use proptest::prelude::*;

use super::*;
use crate::emulator::Emulator;
use crate::style::{BOLD, DIM, RED};
use crate::text::Span;

const fn size(columns: u16, rows: u16) -> Size {
    Size { columns, rows }
}

/// A screen and the terminal that it is on.
struct ScreenFixture {
    screen: Screen<Vec<u8>>,
    terminal: Emulator,
}

impl ScreenFixture {
    fn new(size: Size) -> Self {
        Self { screen: Screen::new(Vec::new(), size, Colour::On), terminal: Emulator::new(size) }
    }

    /// Sends to the terminal what was written; returns how much that was.
    fn show(&mut self) -> usize {
        let bytes = std::mem::take(&mut self.screen.out);
        self.terminal.feed(&bytes);
        bytes.len()
    }

    fn print(&mut self, text: &str) {
        self.screen.print(Line::plain(text));
    }

    fn print_all(&mut self, lines: &[impl AsRef<str>]) {
        for line in lines {
            self.print(line.as_ref());
        }
    }

    fn draw(&mut self, view: &LiveArea) -> usize {
        self.screen.draw(view).unwrap();
        self.show()
    }

    fn resize(&mut self, size: Size) {
        self.terminal.resize(size);
        self.screen.resized(size);
    }

    /// Resizes, and returns whether the terminal has thereby pushed a part of the live
    /// area out of reach. It folds from the bottom of the window up, so that it also
    /// does so when the live area is near the top.
    fn resize_spills(&mut self, size: Size) -> bool {
        let drawn = &self.screen.drawn;
        let below = drawn.lines.len().saturating_sub(drawn.place.row);
        self.terminal.resize(Size { columns: self.screen.size.columns, ..size });
        let row = self.terminal.cursor().0;
        self.resize(size);
        let columns = self.screen.columns();
        let folded = self.screen.drawn.lines.iter();
        let folded: usize = folded.map(|line| draw::Fold::of(line.cells(), columns).rows()).sum();
        let below_now = folded.saturating_sub(self.screen.above);
        row + below < below_now || self.terminal.cursor().0 < self.screen.above
    }
}

fn view(lines: &[&str], cursor: Option<(usize, usize)>) -> LiveArea {
    LiveArea { lines: lines.iter().map(Line::plain).collect(), cursor }
}

#[test]
fn printed_lines_stay_above_and_the_live_area_is_once_below() {
    let mut stage = ScreenFixture::new(size(40, 6));
    for turn in 0..20 {
        stage.print(&format!("said {turn}"));
        stage.draw(&view(&[&format!("working {turn}"), "> typed", "status"], Some((1, 7))));
    }
    let printed = (0..20).map(|turn| format!("said {turn}"));
    let expected: Vec<_> =
        printed.chain(["working 19", "> typed", "status"].map(str::to_owned)).collect();
    assert_eq!(stage.terminal.all(), expected);
    assert_eq!(stage.terminal.cursor(), (4, 7));
}

#[test]
fn nothing_is_written_when_nothing_has_changed() {
    let mut stage = ScreenFixture::new(size(80, 24));
    let mut shown = view(&["working", "> hello", "status"], Some((1, 7)));
    stage.print("said");
    assert!(stage.draw(&shown) > 0);
    assert_eq!(stage.draw(&shown), 0);
    shown.cursor = Some((1, 6));
    assert!(stage.draw(&shown) < 50, "a cursor that moved is little");
    shown.lines[1] = Line::plain("> hello!");
    let key = stage.draw(&shown);
    assert!(key < 80, "one key is one row, not {key} bytes");
    assert_eq!(stage.terminal.all(), ["said", "working", "> hello!", "status"]);
    stage.screen.clear().unwrap();
    stage.show();
    stage.screen.clear().unwrap();
    assert_eq!(stage.show(), 0);
    stage.draw(&LiveArea::default());
    assert_eq!(stage.draw(&LiveArea::default()), 0);
}

#[test]
fn a_long_answer_is_not_kept_in_memory() {
    let mut stage = ScreenFixture::new(size(80, 24));
    (0..1000).for_each(|_| stage.print(&"x".repeat(1000)));
    stage.draw(&view(&["> "], Some((0, 2))));
    assert!(stage.screen.frame.memory() <= 64 << 10, "{}", stage.screen.frame.memory());
}

#[test]
fn a_frame_is_one_write_that_the_terminal_shows_at_once() {
    struct Writes(Vec<Vec<u8>>);
    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut screen = Screen::new(Writes(Vec::new()), size(20, 5), Colour::Off);
    screen.print(Line::plain("one"));
    screen.print(Line::plain("two"));
    screen.draw(&view(&["live", "> "], Some((1, 2)))).unwrap();
    let frame = "\x1b[?2026h\x1b[?25l\r\x1b[Jone\r\ntwo\r\nlive\r\n> \r\x1b[2C\x1b[?25h\x1b[?2026l";
    assert_eq!(screen.out.0, [frame.as_bytes()]);
}

#[test]
fn rows_come_and_go_without_leaving_anything() {
    let mut stage = ScreenFixture::new(size(30, 8));
    stage.print("said");
    stage.draw(&view(&["> a"], Some((0, 3))));
    stage.draw(&view(&["menu 1", "menu 2", "> ab", "status"], Some((2, 4))));
    assert_eq!(stage.terminal.all(), ["said", "menu 1", "menu 2", "> ab", "status"]);
    assert_eq!(stage.terminal.cursor(), (3, 4));
    stage.draw(&view(&["> abc", "status"], Some((0, 5))));
    assert_eq!(stage.terminal.all(), ["said", "> abc", "status"]);
    assert_eq!(stage.terminal.cursor(), (1, 5));
    stage.draw(&view(&["question?"], None));
    assert_eq!(stage.terminal.all(), ["said", "question?"]);
    assert!(!stage.terminal.cursor_is_visible());
    stage.draw(&LiveArea::default());
    assert_eq!(stage.terminal.all(), ["said"]);
    stage.draw(&view(&["> "], Some((0, 2))));
    assert_eq!(stage.terminal.all(), ["said", ">"]);
    assert!(stage.terminal.cursor_is_visible());
}

#[test]
fn the_live_area_leaves_one_row_and_shows_what_is_typed() {
    let mut stage = ScreenFixture::new(size(20, 4));
    stage.print("said");
    let lines: Vec<_> = (0..10).map(|row| format!("row {row}")).collect();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    stage.draw(&view(&lines, Some((9, 1))));
    assert_eq!(stage.terminal.screen(), ["said", "row 7", "row 8", "row 9"]);
    assert_eq!(stage.terminal.cursor(), (3, 1));
    stage.draw(&view(&lines, Some((2, 1))));
    assert_eq!(stage.terminal.screen(), ["said", "row 2", "row 3", "row 4"]);
    assert_eq!(stage.terminal.cursor(), (1, 1));
}

#[test]
fn live_lines_are_cut_and_printed_lines_are_folded_by_the_terminal() {
    let mut stage = ScreenFixture::new(size(60, 10));
    let long = "word ".repeat(30);
    stage.print(long.trim_end());
    stage.draw(&view(&[long.trim_end(), "> "], Some((1, 2))));
    let copied = stage.terminal.copied();
    assert_eq!(copied[0], long.trim_end());
    assert_eq!(copied[1], format!("{}word…", "word ".repeat(11)));
    assert_eq!(copied.len(), 3);
}

#[test]
fn a_line_exactly_as_wide_as_the_terminal_makes_no_empty_row() {
    let mut stage = ScreenFixture::new(size(10, 6));
    stage.print("0123456789");
    stage.draw(&view(&["abcdefghij", "> "], Some((1, 2))));
    stage.draw(&view(&["ABCDEFGHIJ", "> "], Some((1, 2))));
    assert_eq!(stage.terminal.all(), ["0123456789", "ABCDEFGHIJ", ">"]);
}

#[test]
fn wide_joined_combining_and_invisible_characters_keep_their_rows() {
    let family = "👩‍👩‍👧‍👦";
    let mut stage = ScreenFixture::new(size(12, 12));
    let lines =
        ["日本語テキストです", "e\u{301}e\u{301}\u{200b}x", &family.repeat(6), "❤️❤️❤️❤️❤️❤️❤️"];
    stage.print_all(&lines);
    for (first, typed) in [("", "日"), ("x", "日本"), (lines[0], "日本語")] {
        stage.draw(&view(&[first, lines[2], lines[3], typed, "end"], Some((3, 6))));
    }
    let copied = stage.terminal.copied();
    assert_eq!(copied[..4], lines.map(str::to_owned));
    assert_eq!(copied.len(), 9, "{copied:#?}");
    assert_eq!(copied[4], "日本語テキ…");
    assert_eq!(copied[7..], ["日本語", "end"]);
    assert_eq!(stage.terminal.cursor().1, 6);
}

#[test]
fn the_cursor_stands_behind_the_text_however_wide_the_terminal_thinks_it_is() {
    let mut stage = ScreenFixture::new(size(40, 5));
    // Two columns for us; eight for a terminal that joins nothing.
    let typed = "> 👩‍👩‍👧‍👦ab";
    stage.draw(&view(&[typed], Some((0, 2 + 2 + 1))));
    assert_eq!(stage.terminal.cursor(), (0, 2 + 8 + 1));
    stage.draw(&view(&[typed], Some((0, 9))));
    assert_eq!(stage.terminal.cursor(), (0, 2 + 8 + 2), "not beyond the end");
}

#[test]
fn the_cursor_never_stands_within_a_character() {
    let mut stage = ScreenFixture::new(size(40, 5));
    stage.draw(&view(&["日本"], Some((0, 3))));
    assert_eq!(stage.terminal.cursor(), (0, 2));
}

#[test]
fn hostile_text_commands_nothing() {
    let mut stage = ScreenFixture::new(size(60, 8));
    stage.print("before");
    let hostile = "\x1b[2J\x1b[H\x1b]0;owned\x07\rover\x08\x08\u{9b}1A\x1b[?1049h\x1b[6n\x0e\x07";
    stage.print(hostile);
    stage.draw(&view(&[hostile, "> "], Some((1, 2))));
    let shown = "\\x1b[2J\\x1b[H\\x1b]0;owned\\x07\\x0dover\\x08\\x08";
    let copied = stage.terminal.copied();
    assert_eq!(copied[0], "before");
    assert!(copied[1].starts_with(shown), "{copied:?}");
    assert!(copied[2].starts_with("\\x1b[2J"), "{copied:?}");
    assert_eq!(stage.terminal.answers(), b"");
    assert_eq!((stage.terminal.title(), stage.terminal.bells()), (None, 0));
    assert_eq!(stage.terminal.modes(), Vec::<&str>::new());
}

#[test]
fn very_long_lines_and_the_smallest_terminals_do_no_harm() {
    let long = "x".repeat(100_000);
    for size in [size(1, 1), size(1, 2), size(2, 2), size(60, 2), size(0, 0)] {
        let mut stage = ScreenFixture::new(size);
        stage.print("日本");
        stage.draw(&view(&["日本", "> a", ""], Some((1, 3))));
        stage.draw(&view(&["日本", "> ab"], Some((9, 99))));
        stage.resize(Size { columns: 3, rows: 2 });
        stage.draw(&view(&["日本", "> ab"], None));
        stage.screen.clear().unwrap();
        stage.show();
    }
    let mut stage = ScreenFixture::new(size(80, 24));
    stage.print(&long);
    stage.draw(&view(&[&long, "> "], Some((1, 2))));
    assert_eq!(stage.terminal.copied()[0], long);
    assert_eq!(stage.terminal.copied().len(), 3);
}

#[test]
fn others_may_write_where_the_live_area_was() {
    let mut stage = ScreenFixture::new(size(40, 10));
    stage.print("said");
    stage.draw(&view(&["working", "> x", "status"], Some((1, 3))));
    stage.print("last words");
    stage.screen.clear().unwrap();
    stage.show();
    stage.terminal.feed(b"from an editor\r\n");
    stage.draw(&view(&["> x", "status"], Some((0, 3))));
    assert_eq!(stage.terminal.all(), ["said", "last words", "from an editor", "> x", "status"]);
}

#[test]
fn an_empty_screen_loses_no_text() {
    let mut stage = ScreenFixture::new(size(40, 6));
    (0..9).for_each(|row| stage.print(&format!("said {row}")));
    stage.draw(&view(&["> x", "status"], Some((0, 3))));
    stage.screen.clear_screen().unwrap();
    stage.show();
    assert!(stage.terminal.screen().iter().all(String::is_empty));
    stage.draw(&view(&["> x", "status"], Some((0, 3))));
    assert_eq!(stage.terminal.screen()[..4], ["", "> x", "status", ""]);
    let printed: Vec<_> = (0..9).map(|row| format!("said {row}")).collect();
    assert_eq!(stage.terminal.all()[..9], printed);
    assert_eq!(stage.terminal.all()[9..], ["", "> x", "status"]);
}

#[test]
fn styles_are_seen_and_end_with_their_words() {
    let mut stage = ScreenFixture::new(size(40, 4));
    stage.screen.print(Line::from_spans(vec![
        Span::new("bold ", BOLD),
        Span::new("red", RED),
        Span::plain(" plain"),
    ]));
    stage.draw(&LiveArea { lines: vec![Line::styled("status", DIM)], cursor: None });
    let rows = stage.terminal.styled_screen();
    let looks = |row: usize| -> Vec<_> {
        rows[row].iter().map(|span| (span.text.as_str(), span.look.join(" "))).collect()
    };
    let plain = String::new();
    assert_eq!(looks(0), [("bold ", "bold".into()), ("red", "red".into()), (" plain", plain)]);
    assert_eq!(looks(1), [("status", "dim".into())]);
}

#[test]
fn a_narrower_terminal_keeps_printed_lines_and_one_live_area() {
    let mut stage = ScreenFixture::new(size(80, 24));
    let prose = "some words that go on and on until the line is nearly full of words, and then";
    let printed: Vec<_> = (0..30).map(|row| format!("{row} {prose}")).collect();
    stage.print_all(&printed);
    let live = [prose, "> what is being typed here is longer than a narrow window", "status"];
    stage.draw(&view(&live, Some((1, 40))));
    for columns in [60, 20, 140, 33, 80] {
        stage.resize(size(columns, 24));
        stage.draw(&view(&live, Some((1, 10))));
        let copied = stage.terminal.copied();
        let cut = live.map(|line| Line::plain(line).cut(usize::from(columns)).text());
        assert_eq!(copied[..30], printed, "at {columns} columns");
        assert_eq!(copied[30..], cut, "at {columns} columns");
    }
}

#[test]
fn printed_lines_outlast_terminals_that_lose_their_cursor_among_wide_characters() {
    let wide = "a a      aa aaa          日本語 \\x1b[2J\\x0d\\x08 aaaaaaa a a a";
    for (line, column, from, to) in [("aa 🦀   ", 8, 40, 4), (wide, 54, 55, 11)] {
        let mut stage = ScreenFixture::new(size(from, 12));
        let printed: Vec<_> = (0..40).map(|row| format!("said {row}")).collect();
        stage.print_all(&printed);
        stage.draw(&view(&[line], Some((0, column))));
        stage.resize(size(to, 12));
        stage.draw(&view(&["> "], Some((0, 2))));
        assert_eq!(stage.terminal.copied()[..40], printed, "{line:?}");
    }
}

#[test]
fn a_terminal_that_does_not_reflow_keeps_the_text() {
    let mut screen = Screen::new(Vec::new(), size(80, 24), Colour::Off).with_reflow(Reflow::No);
    screen.draw(&view(&[&"x".repeat(79), "> "], Some((1, 2)))).unwrap();
    screen.out.clear();
    screen.resized(size(20, 24));
    screen.draw(&view(&["x", "> "], Some((1, 2)))).unwrap();
    let frame = String::from_utf8(screen.out).unwrap();
    assert!(frame.contains("\x1b[1A"), "one row up, whatever the width: {frame:?}");
}

/// Prints lines, draws a view, lets the terminal have several sizes one after the
/// other, and draws again. Returns what is missing of what was said.
fn lost_by_sizes(lines: &[&str], cursor: (usize, usize), sizes: &[Size]) -> Vec<String> {
    let mut stage = ScreenFixture::new(size(40, 12));
    let printed: Vec<_> = (0..40).map(|row| format!("before {row}")).collect();
    stage.print_all(&printed);
    stage.draw(&view(lines, Some(cursor)));
    for size in sizes {
        stage.resize(*size);
    }
    stage.draw(&view(lines, Some(cursor)));
    let copied = stage.terminal.copied();
    let mut seen = copied.iter();
    printed.into_iter().filter(|line| !seen.by_ref().any(|row| row.ends_with(line))).collect()
}

#[test]
fn two_sizes_without_a_frame_between_lose_no_text() {
    let lost = lost_by_sizes(&["\x1b[2J\r\x08 aaaa"], (0, 16), &[size(17, 3), size(3, 8)]);
    assert_eq!(lost, Vec::<String>::new());
}

/// Something that happens to a screen.
#[derive(Debug, Clone)]
enum Step {
    Print(String),
    Draw(Vec<String>, Option<(usize, usize)>),
    Resize(Size),
}

fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => "[a-z]{1,9}",
        1 => Just("日本語".to_owned()),
        1 => Just("e\u{301}".to_owned()),
        1 => Just("🦀".to_owned()),
        1 => Just("\x1b[2J\r\x08".to_owned()),
        1 => Just("\t".to_owned()),
    ];
    prop::collection::vec(word, 0..14).prop_map(|words| words.join(" "))
}

fn step() -> impl Strategy<Value = Step> {
    let lines = prop::collection::vec(words(), 0..5);
    let cursor = prop::option::of((0usize..5, 0usize..90));
    prop_oneof![
        3 => words().prop_map(Step::Print),
        4 => (lines, cursor).prop_map(|(lines, cursor)| Step::Draw(lines, cursor)),
        2 => (prop_oneof![1 => 2u16..20, 4 => 20u16..90], 2u16..30).prop_map(|(columns, rows)| Step::Resize(size(columns, rows))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_sizes_at_once_lose_no_text(
        lines in prop::collection::vec(words(), 1..5),
        cursor in (0usize..5, 0usize..40),
        sizes in prop::collection::vec((2u16..60, 3u16..20), 2..5),
    ) {
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let sizes: Vec<_> = sizes.into_iter().map(|(columns, rows)| size(columns, rows)).collect();
        prop_assert_eq!(lost_by_sizes(&lines, cursor, &sizes), Vec::<String>::new());
    }

    #[test]
    fn whatever_happens_every_line_is_there_once_and_the_live_area_once_below(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut stage = ScreenFixture::new(size(40, 12));
        let mut printed: Vec<String> = (0..40).map(|row| format!("before {row}")).collect();
        stage.print_all(&printed);
        // Whether the terminal itself has pushed a part of the live area into the
        // scroll-back, because it became too small for it: nobody can take that back.
        let mut spilt = false;
        let mut drawn = view(&[], None);
        for step in steps {
            match step {
                Step::Print(text) => {
                    stage.print(&text);
                    printed.push(Line::plain(&text).text().trim_end().to_owned());
                }
                Step::Draw(lines, cursor) => {
                    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
                    drawn = view(&lines, cursor);
                    stage.draw(&drawn);
                }
                Step::Resize(size) => {
                    spilt |= stage.resize_spills(size);
                    stage.draw(&drawn);
                }
            }
        }
        stage.draw(&drawn);
        let live = drawn.fitted(stage.screen.columns(), stage.screen.live_rows());
        let live: Vec<_> = live.lines.iter().map(|line| line.text().trim_end().to_owned()).collect();
        let mut expected = printed.clone();
        expected.extend(live.iter().cloned());
        while expected.last().is_some_and(String::is_empty) {
            expected.pop();
        }
        let copied = stage.terminal.copied();
        if spilt {
            // All is there in its order; something may be between, or before a line,
            // as the terminal takes what it pushed away for the beginning of it.
            let mut seen = copied.iter();
            for line in expected.iter().filter(|line| !line.is_empty()) {
                prop_assert!(seen.any(|row| row.ends_with(line)), "{line:?} is missing in {copied:#?}");
            }
        } else {
            prop_assert_eq!(copied, expected);
        }
    }
}

#[test]
fn a_text_for_the_clipboard_is_one_sequence_and_never_too_long() {
    let mut screen = Screen::new(Vec::new(), Size { columns: 80, rows: 24 }, Colour::On);
    assert!(screen.copy("a\x07\x1b[2J").unwrap());
    assert_eq!(screen.out(), b"\x1b]52;c;YQcbWzJK\x07");
    assert!(!screen.copy(&"x".repeat(80_000)).unwrap());
    assert_eq!(screen.out().len(), 16);
}
