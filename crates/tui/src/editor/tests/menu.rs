//! The menu of completions.

use super::*;
use crate::complete::Suggestion;

fn completion(replaces: Range<usize>, text: &str) -> Suggestion {
    Suggestion { replaces, text: text.into(), label: text.into(), about: format!("about {text}") }
}

fn tab(editor: &mut Editor, texts: &[&str]) {
    assert_eq!(editor.key(plain(KeyCode::Tab)), Reaction::Complete);
    let (text, cursor) = editor.to_complete();
    assert_eq!(text.len(), cursor);
    editor.set_completions(texts.iter().map(|text| completion(0..cursor, text)).collect());
}

#[test]
fn the_only_completion_is_accepted() {
    let mut editor = editor();
    write(&mut editor, "/he");
    tab(&mut editor, &["/help "]);
    assert_eq!(seen(&editor), "/help |");
    assert!(!editor.is_busy());
    assert_eq!(press(&mut editor, &[KeyPress::control('_')]), "/he|");
}

#[test]
fn what_completions_have_in_common_is_inserted_and_the_rest_is_listed() {
    let mut editor = editor();
    write(&mut editor, "/s");
    tab(&mut editor, &["/sessions", "/sessionx"]);
    assert_eq!(seen(&editor), "/session|");
    assert_eq!(
        rows(&mut editor, 40, 6),
        ["› /session", "› /sessions  about /sessions", "  /sessionx  about /sessionx"]
    );
    assert_eq!(editor.view(40, 6, &Span::plain("› ")).cursor, Some((0, 10)));
    editor.key(plain(KeyCode::Tab));
    assert_eq!(rows(&mut editor, 40, 6)[2], "› /sessionx  about /sessionx");
    editor.key(plain(KeyCode::BackTab));
    editor.key(plain(KeyCode::Up));
    assert_eq!(editor.key(plain(KeyCode::Enter)), Reaction::Changed);
    assert_eq!(seen(&editor), "/sessionx|");
    assert!(!editor.is_busy());
}

#[test]
fn escape_closes_the_menu_and_leaves_what_is_written() {
    let mut editor = editor();
    write(&mut editor, "/");
    tab(&mut editor, &["/a", "/b"]);
    assert_eq!(editor.key(plain(KeyCode::Escape)), Reaction::Changed);
    assert_eq!(seen(&editor), "/|");
    assert!(!editor.is_busy());
    let escape = plain(KeyCode::Escape);
    assert_eq!(editor.key(escape), Reaction::Unused(escape));
}

#[test]
fn typing_narrows_the_menu_without_taking_the_pen_out_of_the_hand() {
    let mut editor = editor();
    write(&mut editor, "/");
    tab(&mut editor, &["/model", "/mcp", "/yolo"]);
    assert_eq!(editor.key(plain(KeyCode::Char('m'))), Reaction::Complete);
    let (_, cursor) = editor.to_complete();
    editor.set_completions(vec![completion(0..cursor, "/model"), completion(0..cursor, "/mcp")]);
    assert_eq!(seen(&editor), "/m|");
    assert_eq!(editor.key(plain(KeyCode::Char('o'))), Reaction::Complete);
    let (_, cursor) = editor.to_complete();
    editor.set_completions(vec![completion(0..cursor, "/model")]);
    assert_eq!(seen(&editor), "/mo|", "not accepted unasked");
    assert_eq!(editor.key(plain(KeyCode::Tab)), Reaction::Changed);
    assert_eq!(seen(&editor), "/model|");
}

#[test]
fn enter_sends_what_is_written_out_already() {
    let mut editor = editor();
    write(&mut editor, "/model");
    tab(&mut editor, &["/model ", "/models "]);
    assert!(editor.is_busy());
    assert_eq!(editor.key(plain(KeyCode::Enter)), Reaction::Submit);
    assert_eq!(editor.take().text, "/model");
}

#[test]
fn completions_that_come_late_or_fit_nowhere_are_dropped() {
    let mut editor = editor();
    write(&mut editor, "é");
    editor.key(plain(KeyCode::Tab));
    let (_, cursor) = editor.to_complete();
    write(&mut editor, "x");
    assert!(!editor.set_completions(vec![completion(0..cursor, "étude")]));
    assert_eq!(seen(&editor), "éx|");
    editor.key(plain(KeyCode::Tab));
    editor.to_complete();
    #[expect(clippy::reversed_empty_ranges, reason = "what a wrong completer may say")]
    let wrong = [1..3, 0..99, 3..0];
    let wrong = wrong.into_iter().map(|range| completion(range, "wrong"));
    assert!(!editor.set_completions(wrong.collect()));
    assert_eq!(seen(&editor), "éx|");
}

#[test]
fn a_long_menu_is_scrolled_and_counted() {
    let mut editor = editor();
    write(&mut editor, "/");
    let texts: Vec<_> = (10..40).map(|number| format!("/{number}")).collect();
    tab(&mut editor, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    for _ in 0..12 {
        editor.key(plain(KeyCode::Down));
    }
    let shown = rows(&mut editor, 40, 20);
    assert_eq!(shown.len(), 10);
    assert_eq!(shown[8], "› /22  about /22");
    assert_eq!(shown[9], "  13 of 30");
    assert_eq!(rows(&mut editor, 40, 3), ["› /", "› /22  about /22", "  13 of 30"]);
    assert_eq!(rows(&mut editor, 40, 1), ["› /"]);
}

#[test]
fn what_is_offered_unasked_inserts_nothing() {
    let mut editor = editor();
    write(&mut editor, "@m");
    let (_, cursor) = editor.to_complete();
    assert!(editor.offer(vec![completion(1..cursor, "main.rs ")]));
    assert_eq!(seen(&editor), "@m|");
    assert!(editor.is_busy());
    let (_, cursor) = editor.to_complete();
    assert!(!editor.offer(Vec::new()));
    assert!(!editor.is_busy());
    assert!(editor.offer(vec![completion(1..cursor, "main.rs ")]));
    assert_eq!(editor.key(plain(KeyCode::Enter)), Reaction::Changed);
    assert_eq!(seen(&editor), "@main.rs |");
}
