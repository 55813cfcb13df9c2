//! What is seen.

use super::*;
use crate::complete::Suggestion;
use crate::emulator::Emulator;
use crate::screen::Screen;
use crate::style::Colour;
use crate::text::Size;

#[test]
fn up_and_down_move_by_rows_and_keep_to_the_column() {
    let mut editor = editor();
    write(&mut editor, "first long line\nab\nthird long line");
    editor.view(80, 10, &Span::plain("› "));
    let (up, down) = (plain(KeyCode::Up), plain(KeyCode::Down));
    press(&mut editor, &[alt_char('b'), up]);
    assert_eq!(seen(&editor), "first long line\nab|\nthird long line");
    assert_eq!(press(&mut editor, &[up]), "first long |line\nab\nthird long line");
    assert_eq!(press(&mut editor, &[down, down]), "first long line\nab\nthird long |line");
}

#[test]
fn up_and_down_move_in_folded_lines_too() {
    let mut editor = editor();
    write(&mut editor, "aaaa bbbb cccc dddd");
    // Room for ten columns and a blank: "aaaa bbbb " and "cccc dddd".
    assert_eq!(rows(&mut editor, 13, 10), ["› aaaa bbbb ", "  cccc dddd"]);
    assert_eq!(press(&mut editor, &[plain(KeyCode::Up)]), "aaaa bbbb| cccc dddd");
    assert_eq!(press(&mut editor, &[plain(KeyCode::Down)]), "aaaa bbbb cccc dddd|");
}

#[test]
fn a_placeholder_is_seen_while_nothing_is_written() {
    let mut editor = editor();
    editor.set_placeholder("ask for anything");
    assert_eq!(rows(&mut editor, 80, 5), ["› ask for anything"]);
    assert_eq!(rows(&mut editor, 10, 5), ["› ask for…"]);
    assert_eq!(editor.view(80, 5, &Span::plain("› ")).cursor, Some((0, 2)));
    write(&mut editor, "a");
    assert_eq!(rows(&mut editor, 80, 5), ["› a"]);
}

#[test]
fn a_text_higher_than_the_view_scrolls_with_the_cursor() {
    let mut editor = editor();
    write(&mut editor, "1\n2\n3\n4\n5\n6");
    assert_eq!(rows(&mut editor, 20, 3), ["› 4", "  5", "  6"]);
    press(&mut editor, &[plain(KeyCode::Up), plain(KeyCode::Up)]);
    assert_eq!(rows(&mut editor, 20, 3), ["› 4", "  5", "  6"], "the text stands still");
    press(&mut editor, &[plain(KeyCode::Up)]);
    assert_eq!(rows(&mut editor, 20, 3), ["› 3", "  4", "  5"]);
    assert_eq!(editor.view(20, 3, &Span::plain("› ")).cursor, Some((0, 3)));
    assert_eq!(rows(&mut editor, 20, 10).len(), 6, "all of it where there is room");
}

#[test]
fn the_text_stands_still_while_the_cursor_moves_in_what_is_seen() {
    let mut editor = editor();
    write(&mut editor, "1\n2\n3\n4\n5\n6\n7\n8\n9");
    editor.view(20, 3, &Span::plain("› "));
    press(&mut editor, &[plain(KeyCode::Up); 6]);
    assert_eq!(rows(&mut editor, 20, 3), ["› 3", "  4", "  5"]);
    press(&mut editor, &[plain(KeyCode::Down)]);
    assert_eq!(rows(&mut editor, 20, 3), ["› 3", "  4", "  5"]);
    press(&mut editor, &[plain(KeyCode::Down); 2]);
    assert_eq!(rows(&mut editor, 20, 3), ["› 4", "  5", "  6"]);
    editor.set_text("1\n2");
    assert_eq!(rows(&mut editor, 20, 3), ["› 1", "  2"]);
}

/// Shows the input on a terminal; returns its rows and where its cursor is.
fn on_a_terminal(editor: &mut Editor, columns: u16) -> (Vec<String>, (usize, usize)) {
    let size = Size { columns, rows: 12 };
    let mut screen = Screen::new(Vec::new(), size, Colour::On);
    let mut terminal = Emulator::new(size);
    screen.draw(&editor.view(columns, 10, &Span::plain("› "))).unwrap();
    terminal.feed(screen.out());
    let rows = terminal.screen().into_iter().filter(|row| !row.is_empty()).collect();
    (rows, terminal.cursor())
}

#[test]
fn wide_characters_are_seen_whole_and_the_cursor_behind_them() {
    let mut editor = editor();
    write(&mut editor, "ab 宽字宽字宽字 e\u{301}é 👍 x");
    let (rows, cursor) = on_a_terminal(&mut editor, 14);
    assert_eq!(rows, ["› ab 宽字宽字", "  宽字 e\u{301}é 👍", "  x"]);
    assert_eq!(cursor, (2, 3));
    press(&mut editor, &[plain(KeyCode::Left), plain(KeyCode::Left)]);
    let (_, cursor) = on_a_terminal(&mut editor, 14);
    assert_eq!(cursor, (1, 12), "behind the thumb");
    press(&mut editor, &[KeyPress::control('a'), alt_char('f'), plain(KeyCode::Right)]);
    press(&mut editor, &[plain(KeyCode::Right)]);
    let (_, cursor) = on_a_terminal(&mut editor, 14);
    assert_eq!(cursor, (0, 7), "behind the first wide one");
}

#[test]
fn the_input_fits_at_sixty_columns_with_its_menu() {
    let mut editor = editor();
    editor.paste("x\n".repeat(10_000));
    write(&mut editor, " what does this log say about the two failures of last night? @sr");
    editor.key(plain(KeyCode::Tab));
    let (text, cursor) = editor.to_complete();
    let start = text.rfind('@').unwrap() + 1;
    let completion = |text: &str, about: &str| Suggestion {
        replaces: start..cursor,
        text: text.into(),
        label: text.into(),
        about: about.into(),
    };
    editor.set_completions(vec![
        completion("src/", ""),
        completion("srv/", "a directory whose description is a good deal too long for this row"),
    ]);
    let (rows, cursor) = on_a_terminal(&mut editor, 60);
    assert_eq!(
        rows,
        [
            "› [pasted 10,000 lines] what does this log say about the",
            "  two failures of last night? @sr",
            "› src/",
            "  srv/  a directory whose description is a good deal too lo…",
        ]
    );
    assert_eq!(cursor, (1, 33));
}
