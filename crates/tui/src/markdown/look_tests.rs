use std::fmt::Write as _;

use super::Markdown;
use crate::style::Colour;
use crate::text::Line;

const RICH: &str = include_str!("samples/rich.md");

fn rendered(source: &str, width: usize, colour: Colour) -> Vec<Line> {
    let mut markdown = Markdown::new(width).colour(colour);
    markdown.push(source);
    markdown.finish()
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text() + "\n").collect()
}

/// Returns lines with their styles as words.
fn with_styles(lines: &[Line]) -> String {
    let mut shown = String::new();
    for line in lines {
        for span in line.spans() {
            let style = style_name(span.style());
            if style.is_empty() {
                shown.push_str(span.text());
            } else {
                write!(shown, "⟨{style}:{}⟩", span.text()).unwrap();
            }
        }
        shown.push('\n');
    }
    shown
}

fn style_name(style: crate::Style) -> String {
    let colour = style.get_fg_color().map(|colour| match colour {
        anstyle::Color::Ansi(colour) => format!("{colour:?}").to_lowercase(),
        other => panic!("only the terminal's own colours are used, not {other:?}"),
    });
    let effects = style.get_effects();
    let named = [
        (anstyle::Effects::BOLD, "bold"),
        (anstyle::Effects::DIMMED, "dim"),
        (anstyle::Effects::ITALIC, "italic"),
        (anstyle::Effects::UNDERLINE, "underlined"),
        (anstyle::Effects::STRIKETHROUGH, "struck"),
    ];
    let effects = named.iter().filter(|(effect, _)| effects.contains(*effect));
    let names: Vec<_> =
        colour.into_iter().chain(effects.map(|(_, name)| (*name).to_owned())).collect();
    names.join(" ")
}

#[test]
fn a_document_at_60_columns() {
    insta::assert_snapshot!(text(&rendered(RICH, 60, Colour::On)));
}

#[test]
fn a_document_at_80_columns() {
    insta::assert_snapshot!(text(&rendered(RICH, 80, Colour::On)));
}

#[test]
fn a_document_at_140_columns() {
    insta::assert_snapshot!(text(&rendered(RICH, 140, Colour::On)));
}

#[test]
fn a_document_with_its_styles_at_60_columns() {
    insta::assert_snapshot!(with_styles(&rendered(RICH, 60, Colour::On)));
}

#[test]
fn a_document_with_its_styles_at_80_columns() {
    insta::assert_snapshot!(with_styles(&rendered(RICH, 80, Colour::On)));
}

#[test]
fn a_document_with_its_styles_at_140_columns() {
    insta::assert_snapshot!(with_styles(&rendered(RICH, 140, Colour::On)));
}

#[test]
fn a_document_without_styles_keeps_its_marks() {
    let lines = rendered(RICH, 80, Colour::Off);
    insta::assert_snapshot!(text(&lines));
}

#[test]
fn an_odd_document_makes_sense() {
    insta::assert_snapshot!(text(&rendered(include_str!("samples/odd.md"), 60, Colour::On)));
}

#[test]
fn an_answer_of_a_model_reads_well() {
    insta::assert_snapshot!(with_styles(&rendered(
        include_str!("samples/answer.md"),
        80,
        Colour::On
    )));
}

#[test]
fn a_table_with_too_many_columns_for_the_terminal_is_a_list_of_records() {
    let source = "\
| Name | Kind | Size | Owner | Changed | Remarks |
|------|------|------|-------|---------|---------|
| report.pdf | document | 1.2 MiB | somebody | yesterday | not read yet |
| notes.txt | text | 3 KiB | somebody else | a week ago | to be thrown away soon |
";
    insta::assert_snapshot!(text(&rendered(source, 40, Colour::On)));
}

#[test]
fn prose_and_tables_fit_the_terminal() {
    for width in [20, 40, 60, 80, 100, 140] {
        let mut in_code = false;
        for line in rendered(RICH, width, Colour::On) {
            let text = line.text();
            let fence = text.trim_start_matches("> ").starts_with("```");
            in_code ^= fence;
            // HTML, code, and an address alone on its line are for the terminal to fold.
            let is_folded = text.contains('<') || is_address(&text);
            assert!(fence || in_code || is_folded || line.width() <= width, "{text}");
        }
    }
}

fn is_address(text: &str) -> bool {
    text.contains("://") && !text.trim_start_matches(['>', ' ', '-']).contains(' ')
}

#[test]
fn an_address_can_be_opened_however_long_it_is() {
    let address = format!("https://example.org/{}?q=1", "path/".repeat(40));
    for source in [
        format!("- see {address} for more"),
        format!("> [the manual]({address})"),
        format!("**{address}**"),
        format!("<{address}>"),
    ] {
        for width in [20, 60, 140] {
            let lines = rendered(&source, width, Colour::On);
            let whole = lines.iter().filter(|line| line.text().contains(&address)).count();
            assert_eq!(whole, 1, "{source} at {width}: {}", text(&lines));
        }
    }
}

#[test]
fn copying_a_block_of_code_gives_the_code_also_within_a_list() {
    let source = "1. Write:\n\n   ```python\n   def f():\n       return 1\n   ```\n";
    let lines = rendered(source, 60, Colour::On);
    assert_eq!(text(&lines), "1. Write:\n\n```python\ndef f():\n    return 1\n```\n");
}

#[test]
fn a_long_line_of_code_stays_one_line() {
    let line = "x".repeat(500);
    let lines = rendered(&format!("```\n{line}\n```"), 60, Colour::On);
    assert_eq!(text(&lines), format!("```\n{line}\n```\n"));
}

#[test]
fn the_numbers_of_a_list_are_counted() {
    assert_eq!(text(&rendered("7. a\n7. b\n1. c\n", 60, Colour::On)), "7. a\n8. b\n9. c\n");
}

#[test]
fn a_path_that_begins_with_a_tilde_is_not_struck_through() {
    let source = "~/a:~/b and ~5 of ~10, but ~~this~~";
    assert_eq!(text(&rendered(source, 60, Colour::On)), "~/a:~/b and ~5 of ~10, but this\n");
}

#[test]
fn blank_lines_are_the_authors() {
    let source = "\n\na\n\n\n\nb\n- c\n\n- d\n# e\nf\n\n";
    assert_eq!(text(&rendered(source, 60, Colour::On)), "a\n\nb\n- c\n\n- d\n# e\nf\n");
}
