use super::*;
use crate::style::{BOLD, DIM, RED};

fn texts(lines: &[Line]) -> Vec<String> {
    lines.iter().map(Line::text).collect()
}

#[test]
fn text_commands_nothing() {
    let hostile = "a\x1b[2Jb\x1b]0;title\x07\u{9b}31m\x08\x7f\rc\0";
    assert_eq!(
        Span::plain(hostile).text(),
        "a\\x1b[2Jb\\x1b]0;title\\x07\\x9b31m\\x08\\x7f\\x0dc\\x00"
    );
    assert_eq!(Line::plain("a\nb\r").text(), "a⏎b");
    assert_eq!(Line::plain("line\r").text(), "line");
    assert_eq!(
        Line::plain("rm \u{202e}txt\u{2069}\u{2028}").text(),
        "rm \\u{202e}txt\\u{2069}\\u{2028}"
    );
}

#[test]
fn words_that_only_a_model_would_read_are_shown_and_flags_stay_flags() {
    assert_eq!(Line::plain("ok\u{e0061}\u{e0062}").text(), "ok\\u{e0061}\\u{e0062}");
    let scotland = "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}";
    assert_eq!(Line::plain(scotland).text(), scotland);
    assert_eq!(
        Line::plain(format!("{scotland}x\u{e0061}")).text(),
        format!("{scotland}x\\u{{e0061}}")
    );
}

#[test]
fn invisible_characters_are_shown_where_they_belong_to_nothing_that_is_seen() {
    // Words as the forms of a letter, in zero-width bits, behind a flag, and fillers.
    for hostile in [
        "a\u{e0158}\u{e0159}\u{e015a}",
        "😀\u{fe01}\u{fe02}\u{fe03}",
        "a\u{fe01}b\u{fe02}c\u{fe03}",
        "a\u{e0101}b\u{e0102}",
        "x\u{200b}\u{200c}\u{200b}\u{200c}",
        "x\u{200b}\u{fe01}\u{200b}\u{fe01}",
        "\u{1f3f4}\u{e0061}\u{e0062}\u{e0063}\u{e0064}\u{e0065}\u{e0066}\u{e0067}\u{e007f}",
        "\u{1f3f4}\u{e0061}\u{e0062}",
        "a\u{2062}\u{2063}\u{2064}",
        "\u{feff}a\u{3164}\u{ffa0}\u{115f}\u{ad}\u{2060}",
    ] {
        let shown = Line::plain(hostile).text();
        let unseen = shown.chars().filter(|c| !c.is_ascii() && char_width(*c) == 0).count();
        assert!(shown.contains("\\u{"), "{shown:?}");
        assert!(unseen <= 2, "{shown:?}");
        assert_eq!(Line::plain(&shown).text(), shown, "what is harmless stays as it is");
    }
    let written = [
        "❤\u{fe0f}\u{200d}🔥",
        "👩\u{200d}👩\u{200d}👧",
        "1\u{fe0f}\u{20e3} #\u{fe0f}\u{20e3}",
        "葛\u{e0100}飾",
        "می\u{200c}خواهم",
        "שלום\u{200f}!",
        "e\u{301}\u{327}",
        "क्\u{200d}ष",
    ];
    for text in written {
        assert_eq!(Line::plain(text).text(), text);
    }
}

#[test]
fn marks_are_not_piled_up_without_end() {
    let pile = format!("e{}x", "\u{301}".repeat(10_000));
    let shown = Line::plain(pile).text();
    assert!(shown.starts_with(&format!("e{}\\u{{301}}", "\u{301}".repeat(30))), "{shown:.200}");
}

#[test]
fn narrow_katakana_with_marks_has_room_where_terminals_are_not_of_one_mind() {
    let line = Line::plain("ｶﾞｷﾞｸﾞ");
    assert_eq!(line.cut_to_be_safe(6).text(), "ｶﾞｷﾞｸﾞ");
    assert_eq!(line.cut_to_be_safe(5).text(), "ｶﾞｷﾞ…");
}

#[test]
fn tabs_reach_the_next_of_the_stops_four_columns_apart() {
    assert_eq!(Line::plain("\ta\tbcd\tefgh\t.").text(), "    a   bcd efgh    .");
    assert_eq!(Line::plain("日\tx").text(), "日  x");
}

#[test]
fn width_is_that_of_what_is_seen() {
    assert_eq!(Line::plain("abc").width(), 3);
    assert_eq!(Line::plain("日本").width(), 4);
    assert_eq!(Line::plain("e\u{301}").width(), 1);
    assert_eq!(Line::plain("👩‍👩‍👧‍👦").width(), 2);
    assert_eq!(Line::plain("a\u{200b}b").width(), 2);
}

#[test]
fn neighbours_of_one_style_are_one_span() {
    let mut line = Line::styled("a", BOLD);
    line.push(Span::new("b", BOLD));
    line.push(Span::plain(""));
    line.push(Span::plain("c"));
    assert_eq!(line.spans(), [Span::new("ab", BOLD), Span::plain("c")]);
    assert_eq!(
        line.prefixed(Span::new("> ", BOLD)).spans(),
        [Span::new("> ab", BOLD), Span::plain("c")]
    );
}

#[test]
fn lines_are_broken_between_words() {
    let line = Line::plain("the quick  brown fox jumps");
    assert_eq!(texts(&line.wrap(10, "")), ["the quick", "brown fox", "jumps"]);
    assert_eq!(texts(&line.wrap(9, "  ")), ["the quick", "  brown", "  fox", "  jumps"]);
    assert_eq!(texts(&line.wrap(100, "  ")), ["the quick  brown fox jumps"]);
    assert_eq!(texts(&Line::empty().wrap(5, "")), [""]);
    assert_eq!(
        texts(&Line::plain("    indented words here").wrap(13, "    ")),
        ["    indented", "    words", "    here"]
    );
}

#[test]
fn spaces_at_a_break_begin_no_line_and_make_none() {
    assert_eq!(texts(&Line::plain("abcde     fgh").wrap(5, "")), ["abcde", "fgh"]);
    assert_eq!(texts(&Line::plain("abcde     ").wrap(5, "")), ["abcde"]);
    assert_eq!(texts(&Line::plain("ab cd").wrap(3, "")), ["ab", "cd"]);
    assert_eq!(texts(&Line::plain("a\u{a0}b c").wrap(3, "")), ["a\u{a0}b", "c"]);
}

#[test]
fn what_has_no_spaces_is_broken_between_characters() {
    assert_eq!(
        texts(&Line::plain("https://example.org/x").wrap(8, "")),
        ["https://", "example.", "org/x"]
    );
    assert_eq!(texts(&Line::plain("日本語テキスト").wrap(5, "")), ["日本", "語テ", "キス", "ト"]);
    assert_eq!(texts(&Line::plain("日本。語").wrap(5, "")), ["日", "本。", "語"]);
    let family = "👩‍👩‍👧‍👦";
    assert_eq!(
        texts(&Line::plain(family.repeat(3)).wrap(4, "")),
        [family.repeat(2), family.to_owned()]
    );
    assert_eq!(
        texts(&Line::plain("e\u{301}e\u{301}e\u{301}").wrap(2, "")),
        ["e\u{301}e\u{301}", "e\u{301}"]
    );
}

#[test]
fn prose_keeps_an_address_in_one_piece() {
    let line = Line::plain("see (https://example.org/a/b/c), or https://a.b/ and so on");
    assert_eq!(
        texts(&line.wrap_prose(14, "  ")),
        ["see", "  (https://example.org/a/b/c),", "  or", "  https://a.b/", "  and so on"]
    );
    let address = format!("https://example.org/{}", "a".repeat(300));
    assert_eq!(texts(&Line::plain(&address).wrap_prose(60, "")), [address.as_str()]);
    assert_eq!(
        texts(&Line::plain(format!("参照{address}を見る")).wrap_prose(60, "")),
        ["参照", &address, "を見る"]
    );
    // Other words are no longer than others.
    assert_eq!(texts(&Line::plain("w".repeat(9)).wrap_prose(4, "")), ["wwww", "wwww", "w"]);
    assert_eq!(texts(&Line::plain("://aaaaaaa").wrap_prose(6, "")), ["://aaa", "aaaa"]);
}

#[test]
fn a_line_narrower_than_a_character_still_ends() {
    assert_eq!(texts(&Line::plain("日本").wrap(1, "    ")), ["日", "本"]);
    assert_eq!(texts(&Line::plain("ab").wrap(0, "")), ["a", "b"]);
}

#[test]
fn styles_stay_with_their_words() {
    let line = Line::from_spans(vec![Span::new("red words", RED), Span::new(" and dim", DIM)]);
    let lines = line.wrap(6, "  ");
    assert_eq!(lines[1].spans(), [Span::plain("  "), Span::new("word", RED)]);
    assert_eq!(texts(&lines), ["red", "  word", "  s", "  and", "  dim"]);
}

#[test]
fn a_line_that_is_too_wide_ends_in_a_mark() {
    assert_eq!(Line::plain("abcdef").cut(6).text(), "abcdef");
    assert_eq!(Line::plain("abcdef").cut(5).text(), "abcd…");
    assert_eq!(Line::plain("abcdef").cut(1).text(), "…");
    assert_eq!(Line::plain("abcdef").cut(0).text(), "");
    assert_eq!(Line::plain("日本語").cut(4).text(), "日…");
    assert_eq!(Line::plain("日本語").cut(5).text(), "日本…");
    assert_eq!(Line::styled("abcdef", RED).cut(3), Line::styled("ab…", RED));
}

#[test]
fn a_cut_to_be_safe_reckons_with_terminals_that_join_no_emoji() {
    let family = "👩‍👩‍👧‍👦";
    assert_eq!(Line::plain(format!("{family}ab")).cut(4).text(), format!("{family}ab"));
    assert_eq!(Line::plain(format!("{family}ab")).cut_to_be_safe(9).text(), format!("{family}…"));
    assert_eq!(Line::plain("ab").cut_to_be_safe(2).text(), "ab");
}

#[test]
fn styles_are_sent_only_where_they_are_wanted() {
    let line = Line::from_spans(vec![Span::new("x", BOLD), Span::plain("y")]);
    assert_eq!(line.to_ansi(Colour::On), "\x1b[1mx\x1b[0my");
    assert_eq!(line.to_ansi(Colour::Off), "xy");
}
