use proptest::prelude::*;

use super::{Highlighter, highlight, language, names};
use crate::style::{self, Style};
use crate::text::Line;

/// Returns the words of a line that have a style.
fn styles(line: &Line) -> Vec<(&str, Style)> {
    let spans = line.spans().iter().filter(|span| span.style() != style::PLAIN);
    spans.map(|span| (span.text().trim(), span.style())).collect()
}

fn shown(language: &str, code: &str) -> Vec<(String, Style)> {
    let lines = highlight(language, code);
    let styles = lines.iter().flat_map(styles);
    styles.map(|(text, style)| (text.to_owned(), style)).collect()
}

#[track_caller]
fn assert_shown(language: &str, code: &str, expected: &[(&str, Style)]) {
    let expected: Vec<_> =
        expected.iter().map(|(text, style)| ((*text).to_owned(), *style)).collect();
    assert_eq!(shown(language, code), expected);
}

#[test]
fn languages_are_known_by_the_names_that_people_use() {
    for name in [
        "rs",
        "rust",
        "Rust",
        "py",
        "python",
        "js",
        "ts",
        "tsx",
        "jsx",
        "sh",
        "bash",
        "zsh",
        "shell",
        "console",
        "diff",
        "json",
        "jsonc",
        "yaml",
        "yml",
        "toml",
        "dockerfile",
        "go",
        "c",
        "cpp",
        "c++",
        "cs",
        "java",
        "kotlin",
        "swift",
        "rb",
        "php",
        "sql",
        "html",
        "css",
        "xml",
        "make",
        "lua",
        "hs",
        "ini",
        "env",
        "tf",
        "nix",
        "powershell",
        "proto",
    ] {
        assert!(language(name).is_some(), "{name}");
    }
    assert!(language("text").is_none());
    assert!(language("").is_none());
}

#[test]
fn no_name_means_two_languages() {
    let mut seen: Vec<_> = names().collect();
    let all = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), all);
}

#[test]
fn rust_has_its_colours() {
    assert_shown(
        "rust",
        "#[test]\nfn g<T>\nlet s: Vec<&'a str> = f(\"a\\\"b\", 'c', 4.5, 0..9); // note\nvec![r#\"x\"y\"#]",
        &[
            ("#[test]", style::YELLOW),
            ("fn", style::MAGENTA),
            ("g", style::BLUE),
            ("T", style::YELLOW),
            ("let", style::MAGENTA),
            ("Vec", style::YELLOW),
            ("'a", style::MAGENTA),
            ("str", style::MAGENTA),
            ("f", style::BLUE),
            ("\"a\\\"b\"", style::GREEN),
            ("'c'", style::GREEN),
            ("4.5", style::CYAN),
            ("0", style::CYAN),
            ("9", style::CYAN),
            ("// note", style::DIM),
            ("vec", style::BLUE),
            ("r#\"x\"y\"#", style::GREEN),
        ],
    );
}

#[test]
fn a_line_means_what_the_lines_before_make_of_it() {
    assert_shown(
        "python",
        "\"\"\"begin\nif within # too\n\"\"\"\nif x: # out",
        &[
            ("\"\"\"begin", style::GREEN),
            ("if within # too", style::GREEN),
            ("\"\"\"", style::GREEN),
            ("if", style::MAGENTA),
            ("# out", style::DIM),
        ],
    );
    assert_shown(
        "c",
        "int a; /* if\nif */ if",
        &[
            ("int", style::MAGENTA),
            ("/* if", style::DIM),
            ("if */", style::DIM),
            ("if", style::MAGENTA),
        ],
    );
    assert_shown(
        "html",
        "<!-- a\n--><b\n  c=\"d\n e\">f &amp;</b>",
        &[
            ("<!-- a", style::DIM),
            ("-->", style::DIM),
            ("<b", style::MAGENTA),
            ("c", style::YELLOW),
            ("\"d", style::GREEN),
            ("e\"", style::GREEN),
            (">", style::MAGENTA),
            ("&amp;", style::CYAN),
            ("</b>", style::MAGENTA),
        ],
    );
}

#[test]
fn in_a_shell_the_names_of_commands_stand_out() {
    assert_shown(
        "sh",
        "FOO=1 apt-get install -y \"$x\" | grep $y && ls # all\nif true; then echo a#b; fi",
        &[
            ("FOO", style::YELLOW),
            ("1", style::CYAN),
            ("apt-get", style::BLUE),
            ("\"$x\"", style::GREEN),
            ("grep", style::BLUE),
            ("$y", style::YELLOW),
            ("ls", style::BLUE),
            ("# all", style::DIM),
            ("if", style::MAGENTA),
            ("true", style::CYAN),
            ("then", style::MAGENTA),
            ("echo", style::BLUE),
            ("fi", style::MAGENTA),
        ],
    );
}

#[test]
fn settings_have_keys() {
    assert_shown(
        "toml",
        "[package] # about\nname = \"a # b\" # c\nsize = 12\n# whole",
        &[
            ("[package]", style::BLUE.bold()),
            ("# about", style::DIM),
            ("name", style::BLUE),
            ("\"a # b\"", style::GREEN),
            ("# c", style::DIM),
            ("size", style::BLUE),
            ("12", style::CYAN),
            ("# whole", style::DIM),
        ],
    );
    assert_shown(
        "json",
        "{\"key\": \"value\", \"n\": [1, null]}",
        &[
            ("\"key\"", style::BLUE),
            ("\"value\"", style::GREEN),
            ("\"n\"", style::BLUE),
            ("1", style::CYAN),
            ("null", style::CYAN),
        ],
    );
    assert_shown(
        "yaml",
        "- a-key: http://b # c\n  other:",
        &[("a-key", style::BLUE), ("# c", style::DIM), ("other", style::BLUE)],
    );
    assert_shown(
        "dockerfile",
        "FROM debian\nRUN ls",
        &[("FROM", style::MAGENTA), ("RUN", style::MAGENTA)],
    );
}

#[test]
fn on_a_console_commands_have_colours_and_their_output_has_none() {
    assert_shown(
        "console",
        "$ echo 'a'\necho 'a'",
        &[("$", style::DIM), ("echo", style::BLUE), ("'a'", style::GREEN)],
    );
}

#[test]
fn a_diff_is_red_and_green() {
    assert_shown(
        "diff",
        "--- a\n@@ -1 +1 @@\n-gone\n+come\n same",
        &[
            ("--- a", style::BOLD),
            ("@@ -1 +1 @@", style::CYAN),
            ("-gone", style::RED),
            ("+come", style::GREEN),
        ],
    );
}

#[test]
fn keywords_of_sql_may_be_written_in_any_way() {
    assert_shown("sql", "SELECT a from b", &[("SELECT", style::MAGENTA), ("from", style::MAGENTA)]);
}

#[test]
fn absurd_lines_stay_plain() {
    let mut highlighter = Highlighter::new("rust");
    assert_eq!(styles(&highlighter.line(&"let a = 1; ".repeat(200))), []);
    assert_eq!(styles(&highlighter.line("let a;")), [("let", style::MAGENTA)]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_words_stay_whatever_the_language(code in "([a-z\"'`#/*$<>&;:=!@\\[\\]{}()\\\\ .0-9é日-]|-->|<!--|\n){0,60}") {
        let plain: Vec<_> = code.lines().map(|line| Line::plain(line).text()).collect();
        for name in names() {
            let lines: Vec<_> = highlight(name, &code).iter().map(Line::text).collect();
            prop_assert_eq!(&lines, &plain, "{}", name);
        }
    }
}
