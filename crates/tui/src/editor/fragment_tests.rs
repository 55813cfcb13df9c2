use unicode_segmentation::UnicodeSegmentation as _;

use super::*;

#[test]
fn a_paste_joins_neither_neighbour() {
    for (before, after) in [("a", "\u{301}"), ("\u{600}", "b"), ("👩\u{200d}", "👩"), ("🇩", "🇪")]
    {
        let text = format!("{before}{ATOM}{after}");
        let graphemes: Vec<_> = text.graphemes(true).collect();
        assert_eq!(graphemes, [before, "\u{fff0}", after]);
    }
}

#[test]
fn what_is_sent_is_what_was_pasted_to_the_byte() {
    let odd = format!("\u{1b}[31m{ATOM}\u{0}\t \n").repeat(20);
    let mut fragment = Fragment::plain("a");
    fragment.push(&Fragment::pasted(&odd));
    fragment.push(&Fragment::plain("b"));
    assert_eq!(fragment.expanded().0, format!("a{odd}b"));
    assert_eq!(fragment.shown(), "a[pasted 20 lines]b");
}

#[test]
fn parts_and_replacements_keep_each_paste_in_its_place() {
    let one = Fragment::pasted(&"1\n".repeat(11));
    let two = Fragment::pasted(&"2\n".repeat(12));
    let mut fragment = one.clone();
    fragment.push(&Fragment::plain(" and "));
    fragment.push(&two);
    let three = Fragment::pasted(&"3\n".repeat(13));
    let removed = fragment.replace(0..ATOM.len_utf8(), &three);
    assert_eq!(removed, one);
    assert_eq!(fragment.shown(), "[pasted 13 lines] and [pasted 12 lines]");
    assert_eq!(fragment.part(ATOM.len_utf8()..fragment.len()).shown(), " and [pasted 12 lines]");
    let (whole, ranges) = fragment.expanded();
    assert_eq!(Fragment::with_pastes(&whole, &ranges), fragment);
}

#[test]
fn ranges_that_are_none_are_passed_over() {
    #[expect(clippy::reversed_empty_ranges, reason = "what a broken file may say")]
    let wrong = [0..1, 3..2, 1..99, 4..4];
    let fragment = Fragment::with_pastes("äbcd", &wrong);
    assert_eq!(fragment, Fragment::plain("äbcd"));
    assert_eq!(Fragment::with_pastes("abcd", &[1..3, 2..4]).shown(), "a[pasted 2 characters]d");
}
