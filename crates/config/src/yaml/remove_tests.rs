use super::remove;

#[test]
fn an_entry_is_taken_out_with_its_lines_and_nothing_else_changes() {
    for (before, after) in [
        ("a: 1\nm:\n  x: {c: 1}\n  y: {c: 2} # of y\n# end\n", "a: 1\nm:\n  x: {c: 1}\n# end\n"),
        (
            "m:\n  # about y\n  y:\n    c: 2 # inside\n    d:\n      - 1\n  z: 3\n",
            "m:\n  # about y\n  z: 3\n",
        ),
        ("m:\n  y: 1\nb: 2\n", "m:\nb: 2\n"),
        ("m:\r\n  y: 1\r\n  x: 2\r\n", "m:\r\n  x: 2\r\n"),
        ("m: {y: 1, x: 2}\n", "m: {x: 2}\n"),
        ("m: {y: 1}\n", "m: {}\n"),
        ("m:\n  x: 1\n  y: 2", "m:\n  x: 1\n"),
        ("m:\n  y: |\n    text\n    more\n  x: 1\n", "m:\n  x: 1\n"),
    ] {
        assert_eq!(remove(before, &["m", "y"]), Ok(Some(after.to_owned())), "{before}");
    }
}

#[test]
fn what_is_not_there_is_not_taken_out() {
    for text in ["", "m:\n", "m: 1\n", "m: {x: 1}\n", "a: {y: 1}\n"] {
        assert_eq!(remove(text, &["m", "y"]), Ok(None), "{text}");
    }
}

#[test]
fn what_others_may_depend_on_is_left_alone() {
    for text in
        ["m:\n  y: &a {c: 1}\n  x: *a\n", "m:\n  y: 1\n  y: 2\n", "b: &b {y: 1}\nm:\n  <<: *b\n"]
    {
        assert!(remove(text, &["m", "y"]).is_err(), "{text}");
    }
}
