use proptest::prelude::*;

use super::{Strategy, *};
use crate::tools::files::FileText;

/// Makes the replacement and returns the text it leaves.
fn done(text: &str, old: &str, new: &str) -> (Strategy, String) {
    let found = replace(text, old, new, Occurrences::One).unwrap();
    let edited = FileText::new(text.as_bytes().to_vec()).edited(&found.changes).unwrap();
    (found.strategy, String::from_utf8(edited).unwrap())
}

fn failed(text: &str, old: &str, new: &str) -> Mismatch {
    replace(text, old, new, Occurrences::One).unwrap_err()
}

const CODE: &str = "\
class A:
    def one(self):
        x = 1
        return x

    def two(self):
        y = 2
        return y
";

#[test]
fn the_very_words_are_found_first() {
    let (strategy, text) = done("a b c", "b", "B");
    assert_eq!((strategy, text.as_str()), (Strategy::Exact, "a B c"));
}

#[test]
fn a_block_indented_less_is_found_and_its_new_lines_indented_as_the_file_is() {
    let old = "def one(self):\n    x = 1\n    return x\n";
    let new = "def one(self):\n    x = 1\n    if x:\n        x += 1\n    return x\n";
    let (strategy, text) = done(CODE, old, new);
    assert_eq!(strategy, Strategy::Indentation);
    let expected = "        x = 1\n        if x:\n            x += 1\n        return x\n";
    assert_eq!(text, CODE.replace("        x = 1\n        return x\n", expected));
}

#[test]
fn new_lines_that_are_indented_as_the_file_is_stay_so_though_the_old_ones_were_not() {
    let fixed = "        x = 1\n        if x:\n            x += 1\n        return x\n";
    let expected = CODE.replace("        x = 1\n        return x\n", fixed);
    for old in ["x = 1\nreturn x\n", "    x = 1\n    return x\n", "  x = 1\n    return x\n"] {
        let (_, text) = done(CODE, old, fixed);
        assert_eq!(text, expected, "{old:?}");
    }
    // Nothing is in both, and the first lines tell.
    let (_, text) = done(CODE, "    x = 1\n", "        z = 3\n");
    assert_eq!(text, CODE.replace("x = 1", "z = 3"));
}

#[test]
fn the_whole_shape_tells_blocks_apart_that_only_differ_in_indentation() {
    let text = "if a:\n  b\n  c\n\nif a:\n    b\n  c\n";
    let (strategy, text) = done(text, "  if a:\n      b\n    c\n", "  if a:\n      d\n    c\n");
    assert_eq!(strategy, Strategy::Indentation);
    assert_eq!(text, "if a:\n  b\n  c\n\nif a:\n    d\n  c\n");
}

#[test]
fn tabs_of_the_file_stand_for_the_spaces_of_the_model() {
    let text = "fn a() {\n\tif x {\n\t\ty();\n\t}\n}\n";
    let old = "    if x {\n        y();\n    }";
    let new = "    if x {\n        y();\n        if z {\n            w();\n        }\n    }";
    let (_, text) = done(text, old, new);
    assert_eq!(text, "fn a() {\n\tif x {\n\t\ty();\n\t\tif z {\n\t\t\tw();\n\t\t}\n\t}\n}\n");
}

#[test]
fn spaces_of_the_file_stand_for_the_tabs_of_the_model() {
    let (_, text) = done("a:\n  b\n", "a:\n\tb", "a:\n\tb\n\tc:\n\t\td");
    assert_eq!(text, "a:\n  b\n  c:\n    d\n");
}

#[test]
fn a_line_less_deep_than_any_before_goes_back_as_far_in_the_file() {
    let text = "        a\n        b\n";
    let (_, text) = done(text, "    a\n    b\n", "    a\nend\n");
    assert_eq!(text, "        a\n    end\n");
}

#[test]
fn blanks_at_the_ends_of_lines_do_not_matter_and_stay_where_nothing_changes() {
    let (strategy, text) = done("one  \ntwo\t\nthree\n", "one\ntwo\nthree", "one\n2\nthree");
    assert_eq!(strategy, Strategy::Indentation);
    assert_eq!(text, "one  \n2\nthree\n");
}

#[test]
fn lines_indented_each_in_their_own_way_are_found() {
    let (strategy, text) = done("  a {\n      b\n   }\n", "a {\n  b\n}", "a {\n  c\n}");
    assert_eq!(strategy, Strategy::LineTrimmed);
    assert_eq!(text, "  a {\n      c\n   }\n");
}

#[test]
fn blanks_inside_of_lines_do_not_matter() {
    let (strategy, text) = done("let  x =   1;\nlet y = 2;\n", "let x = 1;", "let x = 3;");
    assert_eq!((strategy, text.as_str()), (Strategy::Whitespace, "let x = 3;\nlet y = 2;\n"));
}

#[test]
fn a_piece_of_a_line_is_found_whatever_its_blanks() {
    let (strategy, text) = done("call(a,  b,   c);\n", "a, b, c", "a");
    assert_eq!((strategy, text.as_str()), (Strategy::Whitespace, "call(a);\n"));
}

#[test]
fn empty_lines_around_the_text_are_forgiven() {
    let (_, text) = done("a\nb  b\nc\n", "\nb b\n\n", "\nB\n\n");
    assert_eq!(text, "a\nB\nc\n");
}

#[test]
fn escapes_written_once_too_often_are_undone_on_both_sides() {
    let (strategy, text) = done("a = \"x\"\nb\n", r#"a = \"x\"\nb"#, r#"a = \"y\"\nb"#);
    assert_eq!((strategy, text.as_str()), (Strategy::Escapes, "a = \"y\"\nb\n"));
}

#[test]
fn escapes_that_the_file_has_are_left_alone() {
    let (strategy, text) = done("print(\"a\\n\")\n", "print(\"a\\n\")", "print(\"b\\n\")");
    assert_eq!((strategy, text.as_str()), (Strategy::Exact, "print(\"b\\n\")\n"));
}

#[test]
fn quotes_and_dashes_of_print_are_taken_for_those_of_keyboards() {
    let text = "It\u{2019}s here \u{2014} now\nnext\n";
    let (strategy, text) = done(text, "It's here - now\nnext", "It's here - now\nlast");
    assert_eq!(strategy, Strategy::Typography);
    assert_eq!(text, "It\u{2019}s here \u{2014} now\nlast\n");
}

#[test]
fn a_block_with_slips_in_its_middle_is_found_by_its_ends_and_keeps_what_is_not_changed() {
    let text =
        "fn f() {\n    let alpha = compute(1);\n    let beta = compute(2);\n    done();\n}\n";
    let old = "fn f() {\n    let alpha = compute(1);\n    let betta = compute(2);\n    done();\n}";
    let new = old.replace("done()", "finish()");
    let (strategy, text) = done(text, old, &new);
    assert_eq!(strategy, Strategy::BlockAnchor);
    assert_eq!(
        text,
        "fn f() {\n    let alpha = compute(1);\n    let beta = compute(2);\n    finish();\n}\n"
    );
}

#[test]
fn a_block_with_another_middle_is_not_found_by_its_ends() {
    let text = "begin\n  entirely different words\nend\n";
    assert!(matches!(failed(text, "begin\n  1234 5678 90\nend", "x"), Mismatch::Missing { .. }));
}

#[test]
fn several_places_are_no_place_unless_all_are_meant() {
    let expected = Mismatch::Ambiguous { count: 2, lines: vec![1, 3] };
    assert_eq!(failed("a\nb\na\n", "a", "x"), expected);
    // Where the strict reading finds several, no loose one chooses among them.
    assert_eq!(
        failed("  a\n  a\n\ta \n", "  a\n", "x\n"),
        Mismatch::Ambiguous { count: 2, lines: vec![1, 2] }
    );
    let all = replace("a\nb\na\n", "a", "x", Occurrences::All).unwrap();
    assert_eq!(all.changes.len(), 2);
}

#[test]
fn a_text_that_overlaps_itself_is_in_several_places() {
    let expected = Mismatch::Ambiguous { count: 2, lines: vec![1, 2] };
    assert_eq!(failed("}\n}\n}\n", "}\n}\n", "x"), expected);
    assert_eq!(failed(" }\n }\n }\n", "}\n}\n", "x"), expected);
    for text in ["}\n}\n}\n", " }\n }\n }\n"] {
        assert_eq!(replace(text, "}\n}\n", "x", Occurrences::All).unwrap().changes.len(), 1);
    }
}

#[test]
fn all_places_found_by_a_loose_reading_are_changed_each_in_its_own_manner() {
    let text = "  if a {\n    b\n  }\n\tif a {\n\t\tb\n\t}\n";
    let found = replace(text, "if a {\n b\n}", "if a {\n b\n c\n}", Occurrences::All).unwrap();
    let edited = FileText::new(text.as_bytes().to_vec()).edited(&found.changes).unwrap();
    let edited = String::from_utf8(edited).unwrap();
    assert_eq!(edited, "  if a {\n    b\n    c\n  }\n\tif a {\n\t\tb\n\t\tc\n\t}\n");
}

#[test]
fn nothing_to_look_for_and_nothing_to_change_are_distinguished() {
    assert_eq!(failed("a", "", "b"), Mismatch::Empty);
    assert_eq!(failed("a", "a", "a"), Mismatch::Same);
}

#[test]
fn the_closest_place_is_shown_with_its_lines() {
    let old = "    def two(self):\n        z = 3\n        return y";
    let Mismatch::Missing { closest: Some(region), done_at: None } = failed(CODE, old, "x") else {
        panic!("the place was not found");
    };
    assert_eq!(region.first, 4);
    assert!(region.lines.contains(&"        y = 2".to_owned()), "{region:?}");
}

#[test]
fn a_line_with_a_slip_is_shown_as_the_closest() {
    let Mismatch::Missing { closest: Some(region), .. } =
        failed("alpha = 1\nbeta_value = 2\n", "betta_valeu = 2", "x")
    else {
        panic!("the place was not found");
    };
    assert!(region.lines.contains(&"beta_value = 2".to_owned()));
}

#[test]
fn a_change_that_was_made_before_is_noticed() {
    let text = "one\ntwo and more words\n";
    let Mismatch::Missing { done_at, .. } = failed(text, "12345 67890 qqqq", "two and more words")
    else {
        panic!("it was found");
    };
    assert_eq!(done_at, Some(2));
}

#[test]
fn blank_text_is_only_found_to_the_letter() {
    assert!(matches!(failed("a\n \t\nb\n", "  \n", "x"), Mismatch::Missing { .. }));
    assert_eq!(done("a\n  \nb\n", "  \n", "").1, "a\nb\n");
}

#[test]
fn the_last_line_without_an_end_stays_without_one() {
    let (_, text) = done("a\n    b", "  b\n", "  c\n");
    assert_eq!(text, "a\n    c");
}

#[test]
fn lines_can_be_deleted_by_a_loose_reading_too() {
    assert_eq!(done("a\n    b \nc\n", "b\n", "").1, "a\nc\n");
}

#[test]
fn places_that_touch_do_not_take_each_others_blanks() {
    for (text, old, new) in [("  \n", " ", "  a"), (" a\n  a\n ", " a\n ", "  b\n ")] {
        let found = replace(text, old, new, Occurrences::All).unwrap();
        let ranges: Vec<_> = found.changes.iter().map(|change| change.range.clone()).collect();
        assert_eq!(ranges.len(), 2, "{text:?}");
        assert!(ranges[0].end <= ranges[1].start, "{text:?}: {ranges:?}");
    }
}

proptest! {
    #[test]
    fn any_piece_of_a_text_that_is_there_once_is_replaced_to_the_letter(
        text in "[a-c \t\n\u{e9}]{1,80}", from: prop::sample::Index, to: prop::sample::Index, new in "[a-z \n]{0,10}",
    ) {
        let mut borders: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        borders.push(text.len());
        let (a, b) = (borders[from.index(borders.len())], borders[to.index(borders.len())]);
        let range = a.min(b)..a.max(b);
        let old = text[range.clone()].to_owned();
        let places = text.char_indices().filter(|(at, _)| text[*at..].starts_with(&old)).count();
        prop_assume!(!old.is_empty() && old != new && places == 1);
        // What begins within the blanks of a line may be taken for wrongly indented.
        let line = text[..range.start].rsplit('\n').next().unwrap_or_default();
        let within = !line.is_empty() && line.trim().is_empty() && old.starts_with([' ', '\t']);
        prop_assume!(!within || !new.starts_with([' ', '\t']));
        let expected = format!("{}{new}{}", &text[..range.start], &text[range.end..]);
        let (strategy, edited) = done(&text, &old, &new);
        prop_assert_eq!((strategy, edited), (Strategy::Exact, expected));
    }

    #[test]
    fn whatever_is_looked_for_the_rest_of_the_text_stays(
        text in "([ \t]{0,3}[ab{}\"\\\\]{0,3}[ ]{0,2}\n){0,12}[ab]{0,2}",
        old in "([ \t]{0,3}[ab{}\"\\\\]{0,3}\n){0,4}[ab ]{0,3}",
        new in "[ab\n\t ]{0,20}",
    ) {
        if let Ok(found) = replace(&text, &old, &new, Occurrences::All) {
            let mut last = 0;
            for change in &found.changes {
                prop_assert!(last <= change.range.start && change.range.start <= change.range.end);
                prop_assert!(text.is_char_boundary(change.range.start) && text.is_char_boundary(change.range.end));
                last = change.range.end;
            }
            prop_assert!(last <= text.len());
        }
    }
}
