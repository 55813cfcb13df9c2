use proptest::prelude::*;

use super::*;

fn parse(head: &str) -> Result<FrontMatter, Problem> {
    FrontMatter::parse(&format!("---\n{head}\n---\nbody\n"))
}

#[test]
fn everything_a_skill_says_about_itself_is_read() {
    let about = parse(
        "name: pdf-forms
description: >
  Fill in PDF forms.
  Use it when somebody has a form.
version: 1.2
license: MIT
author: somebody
metadata: {nested: [1, 2]}
tags: [pdf, office]
required_environment_variables:
  - PLAIN
  - name: PDF_TOKEN
    prompt: Token
    help: from pdf.example
    required_for: signing
  - {name: SPARE, prompt: Spare, optional: true}
  - {name: OTHER, required: false}",
    )
    .unwrap();
    assert_eq!(about.name.as_str(), "pdf-forms");
    assert_eq!(about.description, "Fill in PDF forms. Use it when somebody has a form.");
    assert_eq!((about.version.as_deref(), about.license.as_deref()), (Some("1.2"), Some("MIT")));
    assert_eq!(about.tags, ["pdf", "office"]);
    let variables: Vec<_> = about
        .variables
        .iter()
        .map(|own| {
            (own.name.as_str(), own.help.as_deref(), own.required_for.as_deref(), own.optional)
        })
        .collect();
    assert_eq!(
        variables,
        [
            ("PLAIN", None, None, false),
            ("PDF_TOKEN", Some("from pdf.example"), Some("signing"), false),
            ("SPARE", Some("Spare"), None, true),
            ("OTHER", None, None, true),
        ]
    );
}

#[test]
fn other_ways_of_writing_are_read_too() {
    for text in [
        "---\nname: a\ndescription: b\n---",
        "\u{feff}---\r\nname: a\r\ndescription: b\r\n---\r\nbody",
        "---\nname: 'a'\ndescription: \"b\"\ntags: x, y\n...\nbody",
        "---  \nname: a # the name\ndescription: b\nrequired_environment_variables:\n--- \n",
    ] {
        let about = FrontMatter::parse(text).unwrap();
        assert_eq!((about.name.as_str(), &*about.description), ("a", "b"), "{text:?}");
    }
}

#[test]
fn what_is_wrong_is_reported_with_its_line_and_what_to_do() {
    let long = format!("name: a\ndescription: {}", "x".repeat(1025));
    for (head, line, reason) in [
        ("description: b", 1, "`name` is missing"),
        ("name: a", 1, "`description` is missing"),
        ("name: a\ndescription:", 1, "`description` is missing"),
        ("name: A b\ndescription: c", 2, "\"A b\" is not a valid name"),
        ("name: [a]\ndescription: c", 2, "`name` is a list, not text"),
        ("name: a\ndescription: b\nname: c", 4, "`name` is there twice"),
        ("name: a\ndescription: b: c", 3, "not valid YAML"),
        (&long, 3, "longer than 1024"),
        ("- a\n- b", 2, "not a map"),
        ("name: a\ndescription: \"x\\x1b[2J\"", 3, "control characters"),
        ("name: a\ndescription: b\ntags: {x: y}", 4, "`tags` is a map, not a list"),
        ("name: a\ndescription: b\nrequired_environment_variables: X", 4, "not a list"),
        (
            "name: a\ndescription: b\nrequired_environment_variables:\n- A B",
            5,
            "is not a valid variable name",
        ),
        ("name: a\ndescription: b\nrequired_environment_variables: [[x]]", 4, "is a list"),
        ("name: a\ndescription: b\nrequired_environment_variables:\n- {help: x}", 5, "no `name`"),
        ("name: a\ndescription: b\nrequired_environment_variables: [A, A]", 4, "A twice"),
        (
            "name: a\ndescription: b\nrequired_environment_variables:\n- name: A\n  optional: perhaps",
            6,
            "neither true nor false",
        ),
    ] {
        let problem = parse(head).unwrap_err();
        assert_eq!(problem.line, line, "{head:?}: {problem}");
        assert!(problem.reason.contains(reason), "{head:?}: {problem}");
        assert!(!problem.advice.is_empty());
    }
    for (text, reason) in [
        ("", "no front matter"),
        ("# Title\n", "no front matter"),
        ("---\nname: a\n", "does not end"),
        (&*format!("---\n# {}\n---\n", "x".repeat(MAX_FRONT_MATTER)), "longer than 32 KiB"),
    ] {
        let problem = FrontMatter::parse(text).unwrap_err();
        assert!(problem.reason.contains(reason), "{problem}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>(), head in "(\\PC|\n|: |- |\\[|\\{|---){0,60}") {
        drop(FrontMatter::parse(&text));
        drop(parse(&head));
        drop(parse(&format!("name: a\ndescription: b\nrequired_environment_variables: {head}")));
    }
}
