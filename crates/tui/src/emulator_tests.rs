use super::*;

fn terminal(columns: u16, rows: u16) -> Emulator {
    Emulator::new(Size { columns, rows })
}

#[test]
fn rows_scroll_back_and_folded_ones_are_copied_as_one() {
    let mut terminal = terminal(10, 3);
    terminal.feed(b"one\r\na line that is folded\r\nend  ");
    assert_eq!(terminal.screen(), ["t is folde", "d", "end"]);
    assert_eq!(terminal.all(), ["one", "a line tha", "t is folde", "d", "end"]);
    assert_eq!(terminal.copied(), ["one", "a line that is folded", "end"]);
    assert_eq!(terminal.cursor(), (2, 5));
    terminal.resize(Size { columns: 40, rows: 4 });
    assert_eq!(terminal.screen(), ["one", "a line that is folded", "end", ""]);
}

#[test]
fn wide_and_combining_characters_are_whole() {
    let mut terminal = terminal(5, 3);
    terminal.feed("日本語e\u{301}".as_bytes());
    assert_eq!(terminal.screen(), ["日本", "語e\u{301}", ""]);
    assert_eq!(terminal.copied(), ["日本語e\u{301}"]);
}

#[test]
fn questions_are_answered_and_modes_are_known() {
    let mut terminal = terminal(20, 4);
    terminal.feed(b"ab\x1b[6n\x07\x1b]0;title\x07\x1b[?2004h\x1b[?25l\x1b[>1u");
    assert_eq!(terminal.answers(), b"\x1b[1;3R");
    assert_eq!(terminal.answers(), b"");
    assert_eq!((terminal.bells(), terminal.title().as_deref()), (1, Some("title")));
    assert_eq!(terminal.modes(), ["bracketed paste", "keyboard", "hidden cursor"]);
    terminal.feed(b"\x1b[?2004l\x1b[?25h\x1b[<1u");
    assert_eq!(terminal.modes(), Vec::<&str>::new());
}

#[test]
fn looks_have_names() {
    let mut terminal = terminal(20, 1);
    terminal.feed(b"a\x1b[1;31mb\x1b[0;2;44mc\x1b[0m d   ");
    let looks = [("a", ""), ("b", "bold red"), ("c", "dim on blue"), (" d", "")];
    let row = &terminal.styled_screen()[0];
    let seen: Vec<_> = row.iter().map(|span| (&*span.text, span.look.join(" "))).collect();
    assert_eq!(seen, looks.map(|(text, look)| (text, look.to_owned())));
}
