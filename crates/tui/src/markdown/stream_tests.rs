use proptest::collection::vec;
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::{Markdown, blocks::RenderOptions, inline};
use crate::style::{self, Colour};
use crate::text::Line;

const CORPUS: [&str; 3] = [
    include_str!("samples/rich.md"),
    include_str!("samples/odd.md"),
    include_str!("samples/answer.md"),
];

fn at_once(source: &str, width: usize) -> Vec<Line> {
    let mut markdown = Markdown::new(width);
    markdown.push(source);
    markdown.finish()
}

/// Cuts a text into pieces of about these sizes.
fn pieces<'t>(text: &'t str, sizes: &[usize]) -> Vec<&'t str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let mut size = sizes.next().copied().unwrap_or(1).clamp(1, rest.len());
        while !rest.is_char_boundary(size) {
            size += 1;
        }
        let (piece, after) = rest.split_at(size);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Lines that a document may consist of.
fn source_line() -> impl Strategy<Value = String> {
    let prefix = prop_oneof![
        4 => Just(""), 1 => Just("> "), 1 => Just("- "), 1 => Just("  "), 1 => Just("   "),
        1 => Just("1. "), 1 => Just("    "), 1 => Just("\t"), 1 => Just("> - "), 1 => Just("[^a]: "),
    ];
    let content = prop_oneof![
        3 => Just(""), 2 => Just("words and *more"), 1 => Just("words* `code"), 1 => Just("text"),
        2 => Just("```"), 1 => Just("~~~ rust"), 1 => Just("````"), 1 => Just("---"),
        1 => Just("==="), 1 => Just("# heading #"), 1 => Just("| a | b |"), 1 => Just("|---|:-:|"),
        1 => Just("a | b"), 1 => Just("- item"), 1 => Just("2) item"), 1 => Just("7. item"),
        1 => Just("<div>"), 1 => Just("<!-- -->"), 1 => Just("* * *"), 1 => Just("-"),
        1 => Just("[x](y \"z"), 1 => Just("w)\\"), 1 => Just("    deep"), 1 => Just("> quote"),
        1 => Just("\u{1b}[31m\r"), 1 => Just("x\ry"),
    ];
    (prefix, content).prop_map(|(prefix, content)| format!("{prefix}{content}"))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn any_cutting_into_pieces_gives_the_same_lines(
        lines in vec(source_line(), 0..30),
        sizes in vec(1_usize..12, 1..8),
        width in 1_usize..70,
    ) {
        let source = lines.join("\n");
        let mut markdown = Markdown::new(width);
        let mut got = Vec::new();
        for piece in pieces(&source, &sizes) {
            markdown.push(piece);
            // To have a look changes nothing.
            prop_assert!(markdown.live(3).len() <= 3);
            got.extend(markdown.take_lines());
        }
        got.extend(markdown.finish());
        prop_assert_eq!(got, at_once(&source, width));
    }

    #[test]
    fn what_is_live_is_what_would_be_final(lines in vec(source_line(), 0..20)) {
        // A line of marks alone is not shown before it ends.
        let source = lines.join("\n") + "\nwords";
        let mut markdown = Markdown::new(60);
        markdown.push(&source);
        let mut seen = markdown.take_lines();
        seen.extend(markdown.live(usize::MAX));
        let all = at_once(&source, 60);
        // A block of code that has not ended does not look as if it had.
        prop_assert!(all.starts_with(&seen));
        prop_assert!(all.len() - seen.len() <= 1);
    }

    #[test]
    fn a_line_is_not_handed_out_while_a_mark_in_it_may_be_closed(
        lines in vec("a[a *_~`\\[\\]()<>!\\\\\"/.]{0,8}", 2..8),
    ) {
        let source = lines.join("\n");
        let options = RenderOptions { width: 10_000, colour: Colour::On };
        let trimmed: Vec<_> = lines.iter().map(|line| line.trim_end()).collect();
        let whole = inline::render(&trimmed, options, style::PLAIN).lines;
        let whole: Vec<_> = whole.iter().flat_map(|line| line.wrap(100, "")).collect();
        prop_assert_eq!(at_once(&source, 10_000), whole);
    }

    #[test]
    fn blocks_of_code_are_those_that_pulldown_cmark_finds(lines in vec(source_line(), 0..12)) {
        // The specification puts several lines into a heading, this renderer does not;
        // and of tables and footnotes it knows nothing.
        let same = |line: &&String| {
            let text = line.trim_start_matches(['>', ' ']).trim_end();
            !line.contains(['|', '=', '^', '\r']) && !matches!(text, "-" | "---")
        };
        let lines: Vec<_> = lines.iter().filter(same).cloned().collect();
        // Tabs are shown as spaces.
        let source = lines.join("\n").replace('\t', "    ");
        prop_assert_eq!(code_of(&at_once(&source, 1_000)), code_by_pulldown(&source), "{}", source);
    }
}

/// Returns the code between dimmed fences.
fn code_of(lines: &[Line]) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut current: Option<String> = None;
    for line in lines {
        let spans = line.spans();
        let quoted = spans.first().filter(|span| {
            span.style() == style::DIM && span.text().trim_matches(['>', ' ']).is_empty()
        });
        let quotes = quoted.map_or(0, |span| span.text().len());
        let text = line.text();
        let text = text.get(quotes..).unwrap_or_default();
        let fence = spans.last().is_some_and(|span| span.style() == style::DIM)
            && text.trim_start_matches("> ").starts_with(['`', '~']);
        match (fence, current.take()) {
            (true, None) => current = Some(String::new()),
            (true, Some(code)) => blocks.push(code.trim_end().to_owned()),
            (false, Some(code)) => current = Some(code + text + "\n"),
            (false, None) => {}
        }
    }
    blocks
}

fn code_by_pulldown(source: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut current: Option<String> = None;
    for event in Parser::new_ext(source, Options::empty()) {
        match (event, &mut current) {
            (Event::Start(Tag::CodeBlock(_)), _) => current = Some(String::new()),
            (Event::Text(text), Some(code)) => code.push_str(&text),
            (Event::End(TagEnd::CodeBlock), Some(code)) => {
                blocks.push(code.trim_end().to_owned());
                current = None;
            }
            _ => {}
        }
    }
    blocks
}

#[test]
fn real_documents_look_the_same_in_pieces_of_any_size() {
    for source in CORPUS {
        for width in [20, 60, 100] {
            let whole = at_once(source, width);
            for size in [1, 2, 3, 7, 64, 1_000] {
                let mut markdown = Markdown::new(width);
                let mut got = Vec::new();
                for piece in pieces(source, &[size]) {
                    markdown.push(piece);
                    got.extend(markdown.take_lines());
                }
                got.extend(markdown.finish());
                assert_eq!(got, whole, "pieces of {size} at {width} columns");
            }
        }
    }
}
