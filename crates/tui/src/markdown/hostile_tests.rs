//! Input that was written to do harm, or to take forever.

use super::Markdown;
use crate::style::Colour;
use crate::text::Line;

/// How often each byte may be looked at.
const WORK_PER_BYTE: u64 = 70;

/// Pushes in small pieces, looks at what is live now and then, and returns all lines.
fn streamed(source: &str, piece: usize) -> (Vec<Line>, u64) {
    let mut markdown = Markdown::new(60).colour(Colour::Off);
    let mut lines = Vec::new();
    let mut rest = source;
    let mut pushed = 0;
    while !rest.is_empty() {
        let mut size = piece.min(rest.len());
        while !rest.is_char_boundary(size) {
            size += 1;
        }
        let (now, after) = rest.split_at(size);
        markdown.push(now);
        lines.extend(markdown.take_lines());
        pushed += 1;
        if pushed % 500 == 0 {
            assert!(markdown.live(20).len() <= 20);
        }
        rest = after;
    }
    lines.extend(markdown.finish());
    (lines, markdown.work())
}

fn assert_harmless(lines: &[Line]) {
    for line in lines {
        let text = line.text();
        let commands = text.chars().find(|c| {
            c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        });
        assert_eq!(commands, None, "{text:?}");
    }
}

#[track_caller]
fn assert_bounded(source: &str, piece: usize) -> Vec<Line> {
    let (lines, work) = streamed(source, piece);
    let most = source.len() as u64 * WORK_PER_BYTE;
    assert!(work <= most, "{work} bytes looked at for {} bytes", source.len());
    assert_harmless(&lines);
    lines
}

#[test]
fn marks_without_end_take_no_time() {
    for mark in [
        ">",
        "> ",
        "- ",
        "1. ",
        "[",
        "![",
        "[a](",
        "*",
        "**a ",
        "*a_ ",
        "_a",
        "~~a",
        "`",
        "``` ",
        "<a ",
        "<!-- ",
        "|",
        "| a ",
        "\\",
        "#",
        "&amp;",
        "&#27;",
        "[^",
        "[^a]: ",
        "\t",
        "(",
        "]",
        "a**b_c",
        "`a``b```c",
        "<",
        "![[",
        "> - ",
    ] {
        assert_bounded(&mark.repeat(10_000), 1_000);
        assert_bounded(&(mark.repeat(10_000) + "\n\nwords\n"), 1_000);
        assert_bounded(&format!("{mark}\n").repeat(1_000), 100);
        assert_bounded(&format!("{mark}\n\n").repeat(300), 7);
    }
}

#[test]
fn blank_lines_below_deep_nesting_take_no_time() {
    assert_bounded(&("- ".repeat(10_000) + "a" + &"\n".repeat(20_000)), 100);
    assert_bounded(&(">".repeat(10_000) + "a\n" + &"lazy\n".repeat(5_000)), 100);
}

#[test]
fn a_long_answer_takes_time_in_proportion_to_its_length() {
    const LENGTH: usize = 256 * 1024;
    let repeated = |line: &str| line.repeat(LENGTH / line.len());
    for source in [
        repeated("one paragraph that never ends, with `code` and **weight** in it\n"),
        repeated("an *open mark in each line of one paragraph\n"),
        repeated("paragraphs\n\n"),
        repeated("- an item of one list\n"),
        repeated("no end of line at all, "),
        repeated("> one quotation\n"),
        "```rust\n".to_owned() + &repeated("    let code = \"in one block\";\n"),
        "| a | b |\n|---|---|\n".to_owned() + &repeated("| some words | in a table |\n"),
        "- ```\n".to_owned() + &repeated("  code in an item\n"),
        repeated("    indented code\n"),
    ] {
        assert_bounded(&source, 24);
    }
}

#[test]
fn long_answers_are_handed_out_while_they_come() {
    for line in [
        "one paragraph that never ends\n",
        "an *open mark in each line\n",
        "- items\n",
        "> quotations\n",
        "    code\n",
        "| a | b |\n",
    ] {
        let mut markdown = Markdown::new(60);
        for _ in 0..200 {
            markdown.push(line);
        }
        assert!(markdown.take_lines().len() >= 150, "{line}");
    }
    let mut markdown = Markdown::new(60);
    markdown.push("| a | b |\n|---|---|\n");
    for _ in 0..200 {
        markdown.push("| a | b |\n");
    }
    assert!(markdown.take_lines().len() >= 150, "a table");
}

#[test]
fn nothing_in_a_text_commands_the_terminal() {
    let commands = "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\0\u{8}\u{202e}backwards\u{2066}\u{7f}\r!";
    for form in [
        "{}",
        "# {}",
        "`{}`",
        "**{}**",
        "[{}](http://{})",
        "![{}]({})",
        "- {}",
        "1. {}",
        "> {}",
        "```{}\n{}\n```",
        "```rust\n{}\n// {}\n```",
        "    {}",
        "| {} |\n|---|\n| {} |",
        "<div>{}",
        "[^{}]: {}",
        "&#27;[2J&#0;&#x9b;",
        "<http://{}>",
        "&#x202e;",
        "~~{}~~",
        "{}\n---",
    ] {
        let source = form.replace("{}", commands);
        let mut markdown = Markdown::new(60);
        markdown.push(&source);
        assert_harmless(&markdown.live(usize::MAX));
        let lines = markdown.finish();
        assert!(!lines.is_empty(), "{form}");
        assert_harmless(&lines);
    }
}

#[test]
fn very_long_words_are_broken_to_fit() {
    let (lines, _) = streamed(&"w".repeat(100_000), 4_000);
    assert_eq!(lines.iter().map(Line::width).sum::<usize>(), 100_000);
    assert!(lines.iter().all(|line| line.width() <= 60));
}

#[test]
fn an_unclosed_fence_ends_with_the_text() {
    let (lines, _) = streamed("```rust\nfn main() {}", 3);
    let text: Vec<_> = lines.iter().map(Line::text).collect();
    assert_eq!(text, ["```rust", "fn main() {}", "```"]);
}

#[test]
fn code_that_is_still_coming_does_not_look_as_if_it_had_ended() {
    let mut markdown = Markdown::new(60);
    markdown.push("```rust\nfn main() {");
    let texts = |lines: Vec<Line>| lines.iter().map(Line::text).collect::<Vec<_>>();
    assert_eq!(texts(markdown.take_lines()), ["```rust"]);
    assert_eq!(texts(markdown.live(10)), ["fn main() {"]);
}

#[test]
fn a_terminal_without_columns_is_no_reason_to_panic() {
    for width in [0, 1, 2, 3] {
        let mut markdown = Markdown::new(width);
        markdown.push(include_str!("samples/rich.md"));
        markdown.resized(0);
        assert!(!markdown.finish().is_empty());
    }
}
