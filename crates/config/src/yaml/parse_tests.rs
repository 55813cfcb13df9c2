use proptest::prelude::*;

use super::node::{NodeKind, YamlNode};
use super::{flow, parse};

fn root(text: &str) -> YamlNode {
    parse(text).expect("valid YAML").root.expect("a value")
}

fn error(text: &str) -> String {
    parse(text).expect_err("refused").to_string()
}

#[test]
fn nodes_know_their_line_and_column() {
    let root = root("# top\na:\n  b: [x, é, y]\n");
    let NodeKind::Map { entries, .. } = &root.kind else { panic!("a map") };
    let NodeKind::Map { entries, .. } = &entries[0].value.kind else { panic!("a map") };
    assert_eq!((entries[0].key.line, entries[0].key.column), (3, 3));
    let NodeKind::List { items, .. } = &entries[0].value.kind else { panic!("a list") };
    assert_eq!((items[2].line, items[2].column), (3, 13));
}

#[test]
fn an_absent_value_and_a_tilde_are_null_but_quoted_ones_are_not() {
    let root = root("a:\nb: ~\nc: null\nd: ''\ne: 'null'\nf: !!str null\n");
    let NodeKind::Map { entries, .. } = &root.kind else { panic!("a map") };
    let nulls: Vec<bool> = entries.iter().map(|entry| entry.value.is_null()).collect();
    assert_eq!(nulls, [true, true, true, false, false, false]);
}

#[test]
fn aliases_and_merge_keys_are_followed_and_own_entries_win() {
    let root = root("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\ncopy: *b\n");
    assert_eq!(flow(&root), "{base: {x: 1, y: 2}, use: {y: 3, x: 1}, copy: {x: 1, y: 2}}");
}

#[test]
fn a_tag_nobody_knows_spoils_only_its_value() {
    assert_eq!(flow(&root("a: !thing 1\nb: 2\n")), "{a: \"a value with the tag !thing\", b: 2}");
}

#[test]
fn what_cannot_be_settings_is_refused_with_a_place() {
    assert_eq!(
        error("a:\n\tb: 1\n"),
        "tabs disallowed within this context (block indentation) at line 2, column 2"
    );
    assert_eq!(
        error("a: 1\n---\nb: 2\n"),
        "a second document begins; only one is read at line 2, column 1"
    );
    assert_eq!(
        error("a: &x [*x]\n"),
        "an alias refers to the value that contains it at line 1, column 8"
    );
}

#[test]
fn aliases_that_multiply_are_refused_before_they_fill_memory() {
    let levels = (1..12).map(|level| {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        format!("a{level}: &a{level} [{inner}]\n")
    });
    let text = format!("a0: &a0 [x, x, x, x, x]\n{}", levels.collect::<String>());
    assert!(error(&text).starts_with("holds more than 50000 values"), "{}", error(&text));
}

#[test]
fn the_number_of_values_is_limited() {
    let list = |count| format!("[{}]", vec!["x"; count].join(", "));
    assert!(parse(&list(49_999)).is_ok());
    assert!(error(&list(50_001)).starts_with("holds more than 50000 values"));
}

#[test]
fn nesting_without_end_is_refused_without_a_crash() {
    assert!(parse(&"[".repeat(500_000)).is_err());
    assert!(parse(&"{a: ".repeat(100_000)).is_err());
    assert!(parse(&"- ".repeat(100_000)).is_err());
    let closed = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert!(error(&closed).starts_with("nested deeper than 64 levels"));
}

proptest! {
    #[test]
    fn garbage_never_panics(text in any::<String>()) {
        drop(parse(&text));
    }

    #[test]
    fn garbage_that_looks_like_yaml_never_panics(
        text in "([ \t\n\r]|[a-c]|: |- |[\\[\\]{}&*!#|>'\",?%~]|<<|---|\\.\\.\\.){0,60}"
    ) {
        drop(parse(&text));
    }

    #[test]
    fn what_is_quoted_reads_back_as_it_was(text in any::<String>()) {
        let node = root(&format!("[{}]\n", super::quote(&text)));
        let NodeKind::List { items, .. } = &node.kind else { panic!("a list") };
        prop_assert_eq!(items[0].scalar(), Some(text.as_str()));
        prop_assert!(!items[0].is_null());
    }
}
