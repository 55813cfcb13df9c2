//! What holds whatever is pressed.

use proptest::prelude::*;

use crate::complete::{Completer, Suggestion};
use crate::editor::fragment::ATOM;
use crate::editor::*;
use crate::key::Modifiers;
use crate::text::{Span, harmless};

/// Something that a person does.
#[derive(Debug, Clone)]
enum Act {
    Key(KeyPress),
    Paste(String),
    Set(String),
    View(u16, usize),
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,6}",
        2 => Just(" ".to_owned()),
        1 => Just("\n".to_owned()),
        1 => Just("\t".to_owned()),
        1 => Just("宽字".to_owned()),
        1 => Just("e\u{301}".to_owned()),
        1 => Just("\u{301}".to_owned()),
        1 => Just("👩\u{200d}👩\u{200d}👧".to_owned()),
        1 => Just("\u{200d}".to_owned()),
        1 => Just("🇩🇪🇫".to_owned()),
        1 => Just("क्षि".to_owned()),
        1 => Just("\u{600}1".to_owned()),
        1 => Just("\r\n\u{1b}[31m".to_owned()),
        1 => Just("\u{202e}".to_owned()),
        1 => Just(ATOM.to_string()),
        1 => Just("\\".to_owned()),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn key() -> impl Strategy<Value = KeyPress> {
    let code = prop_oneof![
        8 => "[a-z A-Z0-9/@<>_]".prop_map(|c| KeyCode::Char(c.chars().next().unwrap())),
        2 => prop_oneof![
            Just('宽'), Just('\u{301}'), Just('\u{200d}'), Just('👧'), Just('🇩'), Just('\u{7}'),
            Just('\u{600}'), Just(ATOM), Just('\\'),
        ].prop_map(KeyCode::Char),
        8 => prop_oneof![
            Just(KeyCode::Enter), Just(KeyCode::Tab), Just(KeyCode::BackTab),
            Just(KeyCode::Backspace), Just(KeyCode::Delete), Just(KeyCode::Escape),
            Just(KeyCode::Up), Just(KeyCode::Down), Just(KeyCode::Left), Just(KeyCode::Right),
            Just(KeyCode::Home), Just(KeyCode::End), Just(KeyCode::PageUp), Just(KeyCode::F(5)),
        ],
    ];
    let modifiers = prop_oneof![
        4 => Just((false, false, false)),
        4 => Just((true, false, false)),
        2 => Just((false, true, false)),
        1 => any::<(bool, bool, bool)>(),
    ];
    (code, modifiers).prop_map(|(code, (control, alt, shift))| KeyPress {
        code,
        modifiers: Modifiers { control, alt, shift },
    })
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        20 => key().prop_map(Act::Key),
        3 => text().prop_map(Act::Paste),
        1 => (text(), 11..30_usize).prop_map(|(text, lines)| Act::Paste(
            format!("{text}\n").repeat(lines)
        )),
        1 => text().prop_map(Act::Set),
        2 => (0..40_u16, 0..6_usize).prop_map(|(columns, rows)| Act::View(columns, rows)),
    ]
}

/// Offers something everywhere.
struct Anything;

impl Completer for Anything {
    fn complete(&self, text: &str, cursor: usize) -> Vec<Suggestion> {
        let start = text[..cursor].rfind(' ').map_or(0, |blank| blank + 1);
        let words = ["alpha ", "alphabet", "e\u{301}", "宽字", &text[start..cursor]];
        let from = text.len() % 5;
        words[from..]
            .iter()
            .map(|word| Suggestion {
                replaces: start..cursor,
                text: (*word).to_owned(),
                label: (*word).to_owned(),
                about: "something".to_owned(),
            })
            .collect()
    }
}

fn history(entries: &[String]) -> History {
    let mut history = History::in_memory();
    for entry in entries {
        history.add(entry).unwrap();
    }
    history
}

fn carry_out(editor: &mut Editor, act: &Act) {
    match act {
        Act::Key(key) => match editor.key(*key) {
            Reaction::Complete => {
                editor.complete(&Anything);
            }
            Reaction::Unused(unused) => assert_eq!(unused, *key),
            Reaction::Nothing | Reaction::Changed | Reaction::Submit => {}
        },
        Act::Paste(text) => {
            editor.paste(text);
        }
        Act::Set(text) => editor.set_text(text),
        Act::View(columns, rows) => {
            editor.view(*columns, *rows, &Span::plain("› "));
        }
    }
}

fn check_cursor(editor: &Editor) {
    let cursor = editor.buffer.cursor();
    assert!(editor.buffer.is_boundary(cursor), "{cursor} in {:?}", editor.buffer.text());
    assert_eq!(
        editor.buffer.text().matches(ATOM).count(),
        editor.buffer.fragment().pastes_from(0).len(),
        "each paste has its place"
    );
}

fn check_view(editor: &mut Editor, columns: u16, rows: usize) {
    let view = editor.view(columns, rows, &Span::plain("› "));
    assert!(view.lines.len() <= rows, "{} rows of {rows}", view.lines.len());
    for line in &view.lines {
        let width = line.width();
        assert!(width <= usize::from(columns.max(1)), "{width} of {columns}: {:?}", line.text());
    }
    match view.cursor {
        None => assert_eq!(rows, 0, "there is a cursor"),
        Some((row, column)) => {
            assert!(row < view.lines.len(), "{row} of {}", view.lines.len());
            assert!(column < usize::from(columns.max(1)), "{column} of {columns}");
        }
    }
}

/// What is seen is the text, whatever its folds: columns are wide enough here for
/// every character.
fn check_text_is_seen(editor: &mut Editor, columns: u16) {
    let prompt = "› ";
    let view = editor.view(columns, usize::MAX, &Span::plain(prompt));
    let mut seen = String::new();
    for (number, line) in view.lines.iter().enumerate() {
        let text = line.text();
        let indent = if number == 0 { prompt } else { "  " };
        seen.push_str(text.strip_prefix(indent).unwrap_or_else(|| panic!("{text:?}")));
    }
    let mut text = String::new();
    for line in editor.shown().split('\n') {
        for grapheme in unicode_segmentation::UnicodeSegmentation::graphemes(line, true) {
            text.push_str(&harmless(grapheme));
        }
    }
    assert_eq!(seen, text);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_pressed_the_cursor_is_between_graphemes_and_in_view(
        entries in proptest::collection::vec(text(), 0..4),
        acts in proptest::collection::vec(act(), 0..60),
        columns in 0..50_u16,
        rows in 0..8_usize,
    ) {
        let mut editor = Editor::new(history(&entries));
        editor.set_placeholder("say something");
        for act in &acts {
            carry_out(&mut editor, act);
            check_cursor(&editor);
            check_view(&mut editor, columns, rows);
        }
    }

    #[test]
    fn undoing_everything_brings_back_the_beginning_and_redoing_it_the_end(
        entries in proptest::collection::vec(text(), 0..4),
        acts in proptest::collection::vec(act(), 0..60),
    ) {
        let mut editor = Editor::new(history(&entries));
        for act in &acts {
            carry_out(&mut editor, act);
        }
        editor.key(KeyPress::plain(KeyCode::Escape));
        editor.key(KeyPress::plain(KeyCode::Escape));
        prop_assert!(!editor.is_busy());
        // Undoing is undone by what was undone within the acts: do all of it again.
        let redo = KeyPress {
            code: KeyCode::Char('_'),
            modifiers: Modifiers { alt: true, ..Modifiers::default() },
        };
        while editor.key(redo) == Reaction::Changed {}
        let furthest = editor.text();
        while editor.key(KeyPress::control('_')) == Reaction::Changed {
            check_cursor(&editor);
        }
        prop_assert_eq!(editor.text(), "");
        while editor.key(redo) == Reaction::Changed {
            check_cursor(&editor);
        }
        prop_assert_eq!(&editor.text(), &furthest);
    }

    #[test]
    fn what_is_seen_is_what_is_written(
        acts in proptest::collection::vec(act(), 0..40),
        columns in 30..60_u16,
    ) {
        let mut editor = Editor::new(History::in_memory());
        for act in &acts {
            carry_out(&mut editor, act);
        }
        editor.key(KeyPress::plain(KeyCode::Escape));
        editor.key(KeyPress::plain(KeyCode::Escape));
        check_text_is_seen(&mut editor, columns);
    }

    #[test]
    fn a_layout_that_was_changed_is_that_of_the_new_text(
        acts in proptest::collection::vec(act(), 0..40),
        columns in 1..40_usize,
    ) {
        let mut editor = Editor::new(History::in_memory());
        for act in &acts {
            carry_out(&mut editor, act);
        }
        let room = layout::Room { columns, spare: 1 };
        editor.buffer.layout.resize(room);
        let mut anew = Buffer::of(editor.buffer.fragment().clone(), room);
        let top = layout::RowPosition { line: 0, row: 0, start: 0 };
        let (mut one, mut other) = (Some(top), Some(top));
        while let (Some(a), Some(b)) = (one, other) {
            prop_assert_eq!(a, b);
            let shown = |cells: Vec<layout::EditorCell<'_>>| -> Vec<_> {
                cells.into_iter().map(|cell| (cell.range, cell.shown.into_owned())).collect()
            };
            prop_assert_eq!(shown(editor.buffer.cells(a)), shown(anew.cells(b)));
            one = editor.buffer.below(a);
            other = anew.below(b);
        }
        prop_assert_eq!(one, other);
    }
}
