use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// Long enough for the slowest machine, and far too short for anything that grows
/// faster than its input.
const SOON: Duration = Duration::from_mins(2);

#[track_caller]
fn survives(text: &str) -> Vec<Finding> {
    let began = Instant::now();
    let findings = examine(text, &Ground::default()).findings;
    assert!(began.elapsed() < SOON, "{} bytes took {:?}", text.len(), began.elapsed());
    findings
}

#[test]
fn nesting_without_end_is_asked_about_and_harms_nobody() {
    const DEPTH: usize = 30_000;
    for (open, close) in [
        ("$(", ")"),
        ("(", ")"),
        ("((", "))"),
        ("{ ", "; }"),
        ("${a:-", "}"),
        ("<(", ")"),
        ("\"$(", ")\""),
        ("if ", "; fi"),
        ("case x in x) ", ";; esac"),
        ("eval ", ""),
        ("sudo ", ""),
        ("sh -c ", ""),
        ("a=(", ")"),
        ("[[ ", " ]]"),
        ("{a,", "}"),
        ("f() { ", "; }"),
        ("$((", "))"),
        ("`", "`"),
        ("\\\\`", "\\\\`"),
        ("<<A ", "\nA\n"),
    ] {
        survives(&open.repeat(DEPTH));
        survives(&format!("{}rm -rf /{}", open.repeat(DEPTH), close.repeat(DEPTH)));
        survives(&format!("echo {}x{}", open.repeat(DEPTH), close.repeat(DEPTH)));
    }
    let deep = format!("echo {}x{}", "$(echo ".repeat(50), ")".repeat(50));
    assert!(survives(&deep).iter().any(|finding| finding.rule == "unreadable"));
}

#[test]
fn values_that_multiply_are_given_up() {
    let mut text = "a0=xxxxxxxxxxxxxxxx;".to_owned();
    for step in 1..60 {
        let last = step - 1;
        let value = format!("$a{last}").repeat(4);
        text.extend([format!("a{step}="), value, ";".to_owned()]);
    }
    text.push_str(&"echo $a59 $a5;".repeat(20_000));
    survives(&text);
    survives(&format!("echo {}", "{a,b}".repeat(800)));
    survives(&"echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b};".repeat(20_000));
}

#[test]
fn many_of_anything_take_no_longer_than_they_are_long() {
    for piece in [
        "a;",
        "a|",
        "a&",
        "'a' ",
        "\"a\" ",
        "$a ",
        "\\a",
        "a=b ",
        "> x ",
        "$(a) ",
        "`a` ",
        "{",
        "}",
        "(a) ",
        "<<A\n",
        "# a\n",
        "rm -r x;",
        "sudo ",
        "~",
        "*",
        "é",
        "\u{0}",
        "case a in b) c;; esac;",
        "[[ a ]];",
        "find . -exec a \\; ",
        "python -c \"system('a b')\";",
        "kill -9 -1;",
        "echo a|xargs ",
    ] {
        survives(&piece.repeat(150_000 / piece.len()));
    }
}

#[test]
fn what_is_too_long_is_asked_about() {
    let findings = survives(&"echo a;".repeat(1_000_000));
    assert_eq!(findings.first().map(|finding| finding.rule), Some("unreadable"));
}

#[test]
fn what_never_ends_is_asked_about_and_what_came_before_still_counts() {
    for text in ["echo 'a", "echo \"a", "echo $(a", "echo `a", "echo ${a", "cat < ", "ls >", "a=(b"]
    {
        let findings = survives(text);
        assert!(
            findings.iter().any(|finding| finding.rule == "unreadable"),
            "{text}: {findings:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_is_too_strange(text in any::<String>()) {
        survives(&text);
    }

    #[test]
    fn no_soup_of_syntax_is_too_strange(parts in proptest::collection::vec(
        prop::sample::select(vec![
            "$(", ")", "(", "{", "}", "'", "\"", "`", "\\", "\n", ";", "&", "|", "<", ">", "<<", "<<<", "<<-",
            "${", "$", "#", "[[", "]]", "((", "))", "case ", " in ", "esac", "for ", "do ", "done", "if ",
            "fi", "function ", "rm -rf /", "sudo ", "sh -c ", "eval ", "find ", "-exec ", "xargs ", "A=", " ",
            "~", "*", "é", "\u{fffc}", "\u{f8f0}", "\u{0}", "EOF", "echo ", "python3 -c ", ",", "=", "-", "1",
        ]), 0..40)) {
        survives(&parts.concat());
    }

    #[test]
    fn what_is_dangerous_stays_so_whatever_stands_around_it(
        before in "[a-z ]{0,10}(;|&&|\\|\\||\n|&) ?",
        after in "( ?(;|&&|\\|\\||\n|&)| #)[a-z ]{0,10}",
    ) {
        let findings = survives(&format!("{before}rm -rf /{after}"));
        prop_assert!(findings.iter().any(|finding| finding.severity == Severity::Hardline));
    }
}
