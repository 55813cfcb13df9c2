use super::*;

fn buffer(text: &str) -> Buffer {
    Buffer::of(Fragment::plain(text), Room { columns: 20, spare: 1 })
}

#[test]
fn the_cursor_never_stands_within_a_grapheme() {
    let mut buffer = buffer("e\u{301}x");
    buffer.go(1);
    assert_eq!(buffer.cursor(), 0);
    // A mark that joins what is before it takes the cursor along.
    buffer.go(0);
    buffer.replace(0..0, &Fragment::plain("a"));
    assert_eq!(buffer.cursor(), 1);
    buffer.replace(1..2, &Fragment::default());
    assert_eq!(buffer.text(), "a\u{301}x");
    assert_eq!(buffer.cursor(), 3, "behind what has become one");
}

#[test]
fn words_are_those_of_unicode_and_pastes() {
    let mut buffer = buffer("don't stop—now");
    let mut stops = Vec::new();
    buffer.go(0);
    while buffer.cursor() < buffer.text().len() {
        let to = buffer.word(Direction::Forth);
        buffer.go(to);
        stops.push(buffer.text()[..to].to_owned());
    }
    assert_eq!(stops, ["don't", "don't stop", "don't stop—now"]);
    let end = buffer.text().len();
    buffer.replace(end..end, &Fragment::pasted(&"x\n".repeat(20)));
    assert_eq!(buffer.word(Direction::Back), end);
}

#[test]
fn words_are_found_across_lines() {
    let mut buffer = buffer("one\n\n  \ntwo");
    buffer.go(3);
    assert_eq!(buffer.word(Direction::Forth), buffer.text().len());
    buffer.go(8);
    assert_eq!(buffer.word(Direction::Back), 0);
}
