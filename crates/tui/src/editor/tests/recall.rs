//! Going through the history and searching it.

use super::*;

#[test]
fn history_is_gone_through_and_the_draft_is_kept() {
    let mut editor = with_history(&["first", "second\nwith two lines", "third"]);
    write(&mut editor, "draft");
    let (up, down) = (plain(KeyCode::Up), plain(KeyCode::Down));
    assert_eq!(press(&mut editor, &[up]), "third|");
    assert_eq!(press(&mut editor, &[up]), "second\nwith two lines|");
    assert_eq!(press(&mut editor, &[up]), "first|", "a message is not walked through");
    assert_eq!(editor.key(up), Reaction::Nothing);
    assert_eq!(press(&mut editor, &[down, down]), "third|");
    assert_eq!(press(&mut editor, &[down]), "draft|");
    assert_eq!(press(&mut editor, &[down]), "draft|");
    assert_eq!(press(&mut editor, &[up, up, KeyPress::control('_')]), "draft|", "one step");
    assert_eq!(press(&mut editor, &[up]), "third|", "from the newest again");
}

#[test]
fn a_message_that_is_being_changed_is_walked_through() {
    let mut editor = with_history(&["one", "two\nlines"]);
    let up = plain(KeyCode::Up);
    assert_eq!(press(&mut editor, &[up, plain(KeyCode::Left)]), "two\nline|s");
    assert_eq!(press(&mut editor, &[up]), "two|\nlines");
    assert_eq!(press(&mut editor, &[up]), "one|");
}

#[test]
fn what_was_sent_is_found_with_its_pastes() {
    let mut editor = editor();
    write(&mut editor, "see ");
    editor.paste(large());
    editor.take();
    press(&mut editor, &[plain(KeyCode::Up)]);
    assert_eq!(editor.shown(), "see [pasted 10,000 lines]");
    assert_eq!(editor.text(), format!("see {}", large()));
}

#[test]
fn a_draft_is_kept_when_the_terminal_goes_away() {
    let mut editor = editor();
    write(&mut editor, "half a tho");
    editor.keep_draft();
    assert_eq!(editor.text(), "half a tho");
    assert_eq!(editor.history.messages().collect::<Vec<_>>(), ["half a tho"]);
}

#[test]
fn history_is_searched_character_by_character() {
    let mut editor = with_history(&["cargo test", "git log", "Cargo build", "cargo test"]);
    write(&mut editor, "draft");
    assert_eq!(editor.key(KeyPress::control('r')), Reaction::Changed);
    assert!(editor.is_busy());
    assert_eq!(rows(&mut editor, 40, 5), ["› draft", "search: "]);
    write_query(&mut editor, "cargo");
    assert_eq!(rows(&mut editor, 40, 5), ["› cargo test", "search: cargo"]);
    assert_eq!(editor.view(40, 5, &Span::plain("› ")).cursor, Some((1, 13)));
    editor.key(KeyPress::control('r'));
    assert_eq!(rows(&mut editor, 40, 5), ["› Cargo build", "search: cargo"]);
    editor.key(KeyPress::control('r'));
    editor.key(KeyPress::control('r'));
    assert_eq!(rows(&mut editor, 40, 5), ["› cargo test", "no such message: cargo"]);
    editor.key(KeyPress::control('s'));
    assert_eq!(rows(&mut editor, 40, 5), ["› Cargo build", "search: cargo"]);
    assert_eq!(editor.key(plain(KeyCode::Enter)), Reaction::Changed, "to look at it first");
    assert_eq!(seen(&editor), "Cargo| build");
    assert_eq!(press(&mut editor, &[KeyPress::control('_')]), "draft|");
}

fn write_query(editor: &mut Editor, query: &str) {
    for c in query.chars() {
        editor.key(plain(KeyCode::Char(c)));
    }
}

#[test]
fn a_search_that_is_given_up_leaves_the_draft() {
    for key in [plain(KeyCode::Escape), KeyPress::control('g'), KeyPress::control('c')] {
        let mut editor = with_history(&["cargo test"]);
        write(&mut editor, "draft");
        editor.key(KeyPress::control('r'));
        write_query(&mut editor, "car");
        assert_eq!(editor.key(key), Reaction::Changed);
        assert_eq!(seen(&editor), "draft|");
        assert!(!editor.is_busy());
    }
}

#[test]
fn a_key_that_is_not_of_the_search_is_for_what_was_found() {
    let mut editor = with_history(&["one", "cargo test", "three"]);
    editor.key(KeyPress::control('r'));
    write_query(&mut editor, "car");
    assert_eq!(press(&mut editor, &[KeyPress::control('a')]), "|cargo test");
    editor.key(KeyPress::control('c'));
    editor.key(KeyPress::control('r'));
    write_query(&mut editor, "car");
    assert_eq!(press(&mut editor, &[plain(KeyCode::Up)]), "one|", "from there");
}

#[test]
fn what_was_sent_twice_is_found_once() {
    let mut editor = with_history(&["cargo test", "git log", "cargo test"]);
    editor.key(KeyPress::control('r'));
    write_query(&mut editor, "cargo");
    editor.key(KeyPress::control('r'));
    assert_eq!(rows(&mut editor, 40, 5), ["› cargo test", "no such message: cargo"]);
}

#[test]
fn a_key_that_ends_a_search_and_is_unused_is_handed_back_as_it_was_pressed() {
    let mut editor = Editor::new(History::in_memory());
    editor.key(KeyPress::control('r'));
    let pressed = KeyPress::control('T');
    assert_eq!(editor.key(pressed), Reaction::Unused(pressed));
}
