//! Large texts.

use super::*;

#[test]
fn a_large_paste_is_one_thing_and_sent_whole() {
    let mut editor = editor();
    write(&mut editor, "look: ");
    editor.paste(large());
    write(&mut editor, " ok?");
    assert_eq!(rows(&mut editor, 60, 9), ["› look: [pasted 10,000 lines] ok?"]);
    let text = format!("look: {} ok?", large());
    assert_eq!(editor.text(), text);
    for _ in 0..4 {
        editor.key(plain(KeyCode::Backspace));
    }
    editor.key(plain(KeyCode::Backspace));
    assert_eq!(editor.text(), "look: ", "deleted as one");
    editor.key(KeyPress::control('_'));
    assert!(editor.text().starts_with(&format!("look: {}", large())), "undo brings it back");
    let sent = editor.take();
    assert_eq!(sent.shown, "look: [pasted 10,000 lines] ok?");
    assert_eq!(sent.text, text);
}

#[test]
fn a_small_paste_is_text_and_a_long_line_is_not() {
    let mut editor = editor();
    editor.paste("a\r\nb\rc");
    assert_eq!(editor.shown(), "a\nb\nc");
    editor.paste("x".repeat(2_001));
    assert_eq!(editor.shown(), "a\nb\nc[pasted 2,001 characters]");
    editor.paste("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
    editor.paste("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11");
    assert!(editor.shown().ends_with("9\n10\n[pasted 11 lines]"), "{}", editor.shown());
}

#[test]
fn a_text_too_long_to_be_worked_on_is_one_thing() {
    let mut editor = editor();
    editor.set_text(&"x".repeat(1 << 20));
    assert_eq!(editor.shown(), "[pasted 1,048,576 characters]");
    assert_eq!(editor.text().len(), 1 << 20);
    editor.set_text(&format!("a line\n{}", "{},".repeat(3_000)));
    assert_eq!(editor.shown(), "[pasted 2 lines]", "a line that nobody reads");
    editor.set_text(&"a line\n".repeat(5_000));
    assert_eq!(editor.shown(), editor.text());
}

#[test]
fn setting_the_text_that_is_there_keeps_its_pastes() {
    let mut editor = editor();
    editor.paste(large());
    editor.set_text(&large());
    assert_eq!(editor.shown(), "[pasted 10,000 lines]");
    editor.set_text("other");
    assert_eq!(seen(&editor), "other|");
    editor.key(KeyPress::control('_'));
    assert_eq!(editor.shown(), "[pasted 10,000 lines]");
}

#[test]
fn pastes_are_cut_and_put_in_as_one() {
    let mut editor = editor();
    editor.paste(large());
    write(&mut editor, " b");
    press(&mut editor, &[KeyPress::control('u')]);
    assert!(editor.is_empty());
    press(&mut editor, &[KeyPress::control('y'), KeyPress::control('y')]);
    assert_eq!(editor.shown(), "[pasted 10,000 lines] b[pasted 10,000 lines] b");
    press(&mut editor, &[alt(KeyCode::Backspace), alt(KeyCode::Backspace)]);
    assert_eq!(editor.shown(), "[pasted 10,000 lines] b");
}

#[test]
fn a_key_costs_the_same_whatever_was_pasted_or_set() {
    let work = |editor: &mut Editor, key| {
        let before = editor.buffer.layout.work;
        editor.key(key);
        editor.view(80, 10, &Span::plain("› "));
        editor.buffer.layout.work - before
    };
    let keys = [
        plain(KeyCode::Char('x')),
        plain(KeyCode::Backspace),
        plain(KeyCode::Left),
        alt_char('b'),
        plain(KeyCode::Up),
        KeyPress::control('a'),
        plain(KeyCode::Char('x')),
        KeyPress::control('w'),
        KeyPress::control('y'),
        KeyPress::control('_'),
    ];
    let mut pasted = editor();
    pasted.paste(large());
    let mut long = editor();
    // As much as is set as text, in lines: ten times as much would cost the same.
    long.set_text(&"some words of a line\n".repeat(3_000));
    for editor in [&mut pasted, &mut long] {
        work(editor, plain(KeyCode::Right));
        for key in keys {
            let cells = work(editor, key);
            assert!(cells < 2_000, "{key:?} laid out {cells} characters");
        }
    }
    // The first look at it, too, is at what is seen.
    let mut fresh = editor();
    fresh.set_text(&"some words of a line\n".repeat(3_000));
    let cells = work(&mut fresh, plain(KeyCode::Right));
    assert!(cells < 2_000, "{cells}");
}
