use super::*;

#[test]
fn a_failure_is_a_line_of_json() {
    let denied = Failure::of(Step::Proc, io::Error::from_raw_os_error(1)).at(b"/proc");
    assert_eq!(
        denied.json(),
        "{\"step\":\"mount-proc\",\"target\":\"/proc\",\"errno\":1,\
         \"message\":\"Operation not permitted (os error 1)\"}"
    );
    let plain = Failure::new(Step::Plan, "no\nplan").with_detail("it is \"empty\"");
    assert_eq!(
        plain.json(),
        "{\"step\":\"plan\",\"target\":null,\"errno\":null,\
         \"message\":\"no\\u000aplan: it is \\\"empty\\\"\"}"
    );
}

#[test]
fn a_long_text_is_cut_between_characters() {
    let long = Failure::new(Step::Plan, "\u{e4}".repeat(5000)).at(&[b'x'; 5000]);
    assert!(long.json().len() < 4096, "{}", long.json().len());
    let odd = Failure::new(Step::Plan, format!("x{}", "\u{e4}".repeat(5000)));
    assert!(odd.json().contains('\u{e4}'));
}

#[test]
fn texts_are_quoted_as_json() {
    assert_eq!(quoted("a\"b\\c\n\u{e4}"), "\"a\\\"b\\\\c\\u000a\u{e4}\"");
    assert_eq!(quoted("d\u{1}\u{e9}"), "\"d\\u0001\u{e9}\"");
}
