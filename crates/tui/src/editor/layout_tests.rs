use super::*;

fn folded(text: &str, columns: usize) -> Vec<String> {
    let room = Room { columns, spare: 1 };
    let fragment = Fragment::plain(text);
    let mut layout = Layout::new(fragment.text(), room);
    let mut place = Some(RowPosition { line: 0, row: 0, start: 0 });
    let mut rows = Vec::new();
    while let Some(here) = place {
        let cells = layout.cells(&fragment, here);
        rows.push(cells.iter().map(|cell| cell.shown.as_ref()).collect());
        place = layout.below(&fragment, here);
    }
    rows
}

#[test]
fn lines_are_folded_between_words() {
    assert_eq!(folded("one two three", 8), ["one two ", "three"]);
    assert_eq!(folded("one two three", 7), ["one two ", "three"], "a blank has room behind");
    assert_eq!(folded("one two  three", 7), ["one two ", " three"], "a second one has not");
    assert_eq!(folded("", 7), [""]);
    assert_eq!(folded("a\n\nb", 7), ["a", "", "b"]);
}

#[test]
fn words_that_are_too_long_are_folded_anywhere_but_not_in_a_grapheme() {
    assert_eq!(folded("abcdefgh", 3), ["abc", "def", "gh"]);
    assert_eq!(folded("宽字宽字", 3), ["宽", "字", "宽", "字"]);
    assert_eq!(folded("ae\u{301}ie\u{301}", 2), ["ae\u{301}", "ie\u{301}"]);
}

#[test]
fn wide_characters_need_no_blanks_between_words() {
    assert_eq!(folded("ab 宽字宽字", 7), ["ab 宽字", "宽字"]);
}

#[test]
fn the_cursor_has_a_place_behind_a_full_row() {
    assert_eq!(folded("abc", 3), ["abc"], "in the spare column");
    assert_eq!(folded("abc ", 3), ["abc ", ""]);
    assert_eq!(folded("abc def ", 7), ["abc def ", ""]);
}

#[test]
fn what_is_wider_than_the_screen_is_replaced() {
    assert_eq!(folded("宽", 1), [TOO_WIDE]);
    assert_eq!(folded("\t", 2), ["  "]);
    let fragment = Fragment::pasted(&"x\n".repeat(100));
    let mut layout = Layout::new(fragment.text(), Room { columns: 10, spare: 1 });
    let cells = layout.cells(&fragment, RowPosition { line: 0, row: 0, start: 0 });
    assert_eq!(cells[0].shown, "[pasted 1…");
}

#[test]
fn a_change_lays_out_its_own_line_alone() {
    let text = "words of a line\n".repeat(1_000);
    let mut fragment = Fragment::plain(&text);
    let mut layout = Layout::new(fragment.text(), Room { columns: 20, spare: 1 });
    let mut place = Some(RowPosition { line: 0, row: 0, start: 0 });
    while let Some(here) = place {
        place = layout.below(&fragment, here);
    }
    let before = layout.work;
    fragment.replace(500 * 16..500 * 16, &Fragment::plain("x\ny"));
    layout.replaced(500 * 16, 0, "x\ny");
    let place = layout.place(&fragment, 500 * 16 + 2);
    assert_eq!((place.line, place.row, place.start), (501, 0, 500 * 16 + 2));
    assert_eq!(layout.bytes(&fragment, place), 500 * 16 + 2..500 * 16 + 18);
    assert_eq!(layout.work - before, 16, "the line `ywords of a line`");
}
