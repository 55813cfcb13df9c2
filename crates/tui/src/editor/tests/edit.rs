//! Moving, deleting, cutting, undoing.

use super::*;

#[test]
fn enter_sends_and_the_input_is_empty_then() {
    let mut editor = editor();
    write(&mut editor, "hello");
    assert_eq!(editor.key(plain(KeyCode::Enter)), Reaction::Submit);
    let sent = editor.take();
    assert_eq!(sent, Submission { text: "hello".into(), shown: "hello".into() });
    assert!(editor.is_empty());
    assert_eq!(press(&mut editor, &[KeyPress::control('_')]), "|", "what was sent is not undone");
}

#[test]
fn enter_on_blanks_is_not_for_the_editor() {
    let mut editor = editor();
    let enter = plain(KeyCode::Enter);
    assert_eq!(editor.key(enter), Reaction::Unused(enter));
    write(&mut editor, " \n ");
    assert_eq!(editor.key(enter), Reaction::Unused(enter));
}

#[test]
fn four_ways_make_a_new_line() {
    let mut editor = editor();
    let shift_enter = KeyPress {
        code: KeyCode::Enter,
        modifiers: Modifiers { shift: true, ..Modifiers::default() },
    };
    write(&mut editor, "a");
    editor.key(alt(KeyCode::Enter));
    write(&mut editor, "b");
    editor.key(shift_enter);
    write(&mut editor, "c");
    editor.key(KeyPress::control('j'));
    write(&mut editor, "d\\");
    assert_eq!(editor.key(plain(KeyCode::Enter)), Reaction::Changed);
    write(&mut editor, "e");
    assert_eq!(editor.text(), "a\nb\nc\nd\ne");
}

#[test]
fn a_backslash_that_is_escaped_is_sent() {
    let mut editor = editor();
    write(&mut editor, r"a\\");
    assert_eq!(editor.key(plain(KeyCode::Enter)), Reaction::Submit);
    assert_eq!(editor.take().text, r"a\\");
}

#[test]
fn the_cursor_moves_by_characters_words_lines_and_to_the_ends() {
    let mut editor = editor();
    write(&mut editor, "one two-three\nvier 👩\u{200d}👩\u{200d}👧 fünf");
    let ctrl = |c| KeyPress::control(c);
    assert_eq!(
        press(&mut editor, &[alt_char('b')]),
        "one two-three\nvier 👩\u{200d}👩\u{200d}👧 |fünf"
    );
    assert_eq!(
        press(&mut editor, &[ctrl('b'), plain(KeyCode::Left)]),
        "one two-three\nvier |👩\u{200d}👩\u{200d}👧 fünf"
    );
    assert_eq!(
        press(&mut editor, &[ctrl('a')]),
        "one two-three\n|vier 👩\u{200d}👩\u{200d}👧 fünf"
    );
    assert_eq!(
        press(&mut editor, &[alt(KeyCode::Left)]),
        "one two-|three\nvier 👩\u{200d}👩\u{200d}👧 fünf"
    );
    assert_eq!(
        press(&mut editor, &[alt_char('f'), alt_char('F')]),
        "one two-three\nvier| 👩\u{200d}👩\u{200d}👧 fünf"
    );
    assert_eq!(
        press(&mut editor, &[alt_char('<')]),
        "|one two-three\nvier 👩\u{200d}👩\u{200d}👧 fünf"
    );
    assert_eq!(
        press(&mut editor, &[ctrl('e')]),
        "one two-three|\nvier 👩\u{200d}👩\u{200d}👧 fünf"
    );
    assert_eq!(
        press(&mut editor, &[alt_char('>')]),
        "one two-three\nvier 👩\u{200d}👩\u{200d}👧 fünf|"
    );
    assert_eq!(editor.key(ctrl('f')), Reaction::Nothing);
}

#[test]
fn what_is_cut_is_put_in_again() {
    let mut editor = editor();
    write(&mut editor, "one two three");
    let ctrl = |c| KeyPress::control(c);
    assert_eq!(press(&mut editor, &[ctrl('w')]), "one two |");
    assert_eq!(press(&mut editor, &[ctrl('w')]), "one |");
    assert_eq!(
        press(&mut editor, &[ctrl('y')]),
        "one two three|",
        "together: they were cut together"
    );
    assert_eq!(press(&mut editor, &[ctrl('a'), alt_char('d')]), "| two three");
    assert_eq!(press(&mut editor, &[ctrl('e'), ctrl('y')]), " two threeone|");
    assert_eq!(press(&mut editor, &[alt_char('y')]), " two threetwo three|");
    assert_eq!(press(&mut editor, &[alt_char('y')]), " two threeone|", "round it goes");
    editor.key(plain(KeyCode::Left));
    assert_eq!(editor.key(alt_char('y')), Reaction::Nothing, "only after putting in");
}

#[test]
fn lines_are_cut_to_their_beginning_and_end() {
    let mut editor = editor();
    write(&mut editor, "one\ntwo words");
    let ctrl = |c| KeyPress::control(c);
    assert_eq!(press(&mut editor, &[alt_char('b'), ctrl('k')]), "one\ntwo |");
    assert_eq!(press(&mut editor, &[ctrl('u')]), "one\n|");
    assert_eq!(press(&mut editor, &[ctrl('u')]), "one|");
    assert_eq!(press(&mut editor, &[ctrl('y')]), "one\ntwo words|");
    assert_eq!(press(&mut editor, &[plain(KeyCode::Up), ctrl('e'), ctrl('k')]), "one|two words");
}

#[test]
fn characters_are_exchanged_and_words_recased() {
    let mut editor = editor();
    write(&mut editor, "hte");
    let ctrl = |c| KeyPress::control(c);
    assert_eq!(press(&mut editor, &[ctrl('a'), ctrl('f'), ctrl('t')]), "th|e");
    assert_eq!(press(&mut editor, &[ctrl('e'), ctrl('t')]), "teh|");
    assert_eq!(press(&mut editor, &[ctrl('a'), alt_char('c')]), "Teh|");
    assert_eq!(press(&mut editor, &[ctrl('a'), alt_char('u')]), "TEH|");
    assert_eq!(press(&mut editor, &[ctrl('a'), alt_char('l')]), "teh|");
    editor.take();
    let reasoning = ctrl('t');
    assert_eq!(editor.key(reasoning), Reaction::Unused(reasoning), "nothing to exchange");
}

#[test]
fn undo_goes_word_by_word_and_redo_back() {
    let mut editor = editor();
    write(&mut editor, "one two three");
    let undo = KeyPress::control('_');
    assert_eq!(press(&mut editor, &[undo]), "one two |");
    assert_eq!(press(&mut editor, &[KeyPress::control('7')]), "one |", "as terminals send it");
    assert_eq!(press(&mut editor, &[alt_char('_')]), "one two |");
    write(&mut editor, "x");
    assert_eq!(press(&mut editor, &[alt_char('_')]), "one two x|", "nothing to do again");
    press(&mut editor, &[plain(KeyCode::Backspace), plain(KeyCode::Backspace)]);
    assert_eq!(seen(&editor), "one two|");
    assert_eq!(press(&mut editor, &[undo]), "one two x|", "a run of deletions is one");
    assert_eq!(press(&mut editor, &[undo, undo, undo]), "|");
    assert_eq!(editor.key(undo), Reaction::Nothing);
}

#[test]
fn control_c_clears_and_then_is_not_for_the_editor() {
    let mut editor = editor();
    write(&mut editor, "never mind");
    let interrupt = KeyPress::control('c');
    assert_eq!(editor.key(interrupt), Reaction::Changed);
    assert!(editor.is_empty());
    assert_eq!(editor.key(interrupt), Reaction::Unused(interrupt));
    assert_eq!(press(&mut editor, &[KeyPress::control('_')]), "never mind|");
    let leave = KeyPress::control('d');
    assert_eq!(press(&mut editor, &[KeyPress::control('a'), leave]), "|ever mind");
    editor.take();
    assert_eq!(editor.key(leave), Reaction::Unused(leave));
}

#[test]
fn keys_of_the_program_come_back() {
    let mut editor = editor();
    write(&mut editor, "text");
    for key in [
        KeyPress::control('l'),
        KeyPress::control('o'),
        KeyPress::control('g'),
        KeyPress::control('z'),
        plain(KeyCode::PageUp),
        plain(KeyCode::F(1)),
        alt_char('x'),
    ] {
        assert_eq!(editor.key(key), Reaction::Unused(key));
    }
    assert_eq!(seen(&editor), "text|");
}
