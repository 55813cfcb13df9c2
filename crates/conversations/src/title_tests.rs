use super::*;

#[test]
fn a_title_is_one_line_of_bounded_length() {
    assert_eq!(one_line("  fix\tthe \u{1b}[31m\n build "), Ok("fix the [31m build".to_owned()));
    assert_eq!(one_line(" \n\u{7}"), Err(InvalidTitle::Empty));
    assert_eq!(one_line(&"ä".repeat(200)), Ok("ä".repeat(200)));
    assert_eq!(one_line(&"ä".repeat(201)), Err(InvalidTitle::TooLong { length: 201 }));
}

#[test]
fn a_number_behind_a_title_is_told_from_other_parentheses() {
    assert_eq!(split("fix (2)"), Some(("fix", 2)));
    for title in ["fix", "fix (two)", "fix (2) more", "fix()", "fix ()", "fix (+2)", "(2)"] {
        assert_eq!(split(title), None, "{title}");
    }
}
