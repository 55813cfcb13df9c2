use super::*;

fn at_end(text: &str) -> Vec<(Range<usize>, String)> {
    at_cursor(text, text.len()).into_iter().map(|word| (word.range, word.path)).collect()
}

#[test]
fn the_word_at_the_cursor_may_have_blanks() {
    assert_eq!(at_end("see @src/ma"), [(5..11, "src/ma".into())]);
    assert_eq!(at_end(r"see @my\ fi"), [(5..11, "my fi".into())]);
    assert_eq!(at_end("see (@a"), [(6..7, "a".into())]);
    assert_eq!(at_end("see "), []);
    assert_eq!(at_end("@"), [(1..1, String::new())]);
    assert_eq!(at_end("one\n@two"), [(5..8, "two".into())]);
}

#[test]
fn an_open_quote_may_be_an_apostrophe() {
    assert_eq!(
        at_end("see @\"my fi"),
        [(5..11, "my fi".into()), (9..11, "fi".into())],
        "the quoted one first"
    );
    assert_eq!(at_end("it's @a/b"), [(6..9, "a/b".into())]);
    assert_eq!(at_end("'a b' c/"), [(6..8, "c/".into())]);
    assert_eq!(at_end("'a b'"), []);
    assert_eq!(at_end("é\\"), [(0..3, "é".into())]);
}

#[test]
fn any_text_has_words() {
    for text in ["", "@", "@'", "\"", "\\", "(((", "@(", "é'ü\" @\"ö", "<@\"x\"y>", "@\u{3000}a"]
    {
        let found: Vec<_> = words(text).collect();
        for word in &found {
            assert!(text.get(word.range.clone()).is_some(), "{text}: {word:?}");
        }
        for cursor in 0..=text.len() + 1 {
            at_cursor(text, cursor);
        }
    }
}
