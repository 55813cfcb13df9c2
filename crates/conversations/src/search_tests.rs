use super::*;

#[test]
fn what_a_person_types_is_never_taken_for_syntax() {
    let cases = [
        ("cargo build", "\"cargo\"* \"build\"*"),
        ("\"cargo build\" x", "\"cargo build\" \"x\"*"),
        ("NEAR(a b) OR c*", "\"NEAR(a\"* \"b)\"* \"OR\"* \"c*\"*"),
        ("col:um -x ^y", "\"col:um\"* \"-x\"* \"^y\"*"),
        ("\"open", "\"open\""),
        ("* - \"\" ()", ""),
        ("", ""),
        ("a\0b", "\"a b\"*"),
    ];
    for (query, expected) in cases {
        assert_eq!(expression(query), expected, "{query:?}");
    }
}

#[test]
fn letters_of_scripts_without_blanks_are_words() {
    assert_eq!(expression("東京tower"), "\"\u{200b}東\u{200b}京\u{200b}tower\"*");
    assert_eq!(indexed("in 東京"), "in \u{200b}東\u{200b}京");
}

#[test]
fn of_a_long_text_beginning_and_end_are_indexed() {
    let text = format!("first {}é{} last", "x ".repeat(INDEXED), "é".repeat(INDEXED));
    let words = indexed(&text);
    assert!(words.starts_with("first x") && words.ends_with("é last"));
    assert!(words.len() <= INDEXED + 8, "{}", words.len());
}

#[test]
fn a_snippet_shows_what_was_found_and_little_else() {
    let piece = |text: &str, found| Piece { text: text.to_owned(), found };
    assert_eq!(
        pieces("a \u{200b}\u{1}b\u{2} c \u{1}d\u{2}"),
        [piece("a ", false), piece("b", true), piece(" c ", false), piece("d", true)]
    );
    let long = format!("{}\u{1}hit\u{2}{}", "x".repeat(5000), "y".repeat(5000));
    let shown = pieces(&long);
    assert_eq!(shown[1], piece("hit", true));
    assert_eq!(shown.iter().map(|piece| piece.text.chars().count()).sum::<usize>(), LONGEST);
    assert_eq!(shown[0].text, format!("…{}", "x".repeat(LEAD)));
    // Marks in the text itself do no harm.
    assert_eq!(pieces("\u{2}\u{2}\u{1}"), []);
}
