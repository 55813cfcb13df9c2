use super::*;

fn hide(text: &str) -> HiddenText {
    HiddenText::of(text, &crate::schema(), &["sk-of-the-environment".to_owned()]).expect("parses")
}

const TEXT: &str = "# api_key: sk-commented-out\nmodel:\n  api_key: \"sk-of-the-model\" # mine\n  \
default: m\nproviders:\n  one: {command: x, api_key: sk-one-one}\n  two:\n    api_key: |\n      \
sk-two\n      of two lines\n    env: {A: value-a, B: \"${FROM_ENV}\"}\nunknown:\n  password: hunter2hunter2\n  \
note: the same hunter2hunter2 again\n  url: x?k=sk-of-the-environment\n";

const SECRETS: &[&str] = &[
    "sk-commented-out",
    "sk-of-the-model",
    "sk-one-one",
    "sk-two",
    "of two lines",
    "hunter2hunter2",
    "sk-of-the-environment",
];

#[test]
fn no_secret_is_shown_wherever_it_stands_and_everything_else_is() {
    let shown = hide(TEXT).shown;
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    for public in ["# mine", "default: m", "command: x", "${FROM_ENV}", "note: the same <secret "] {
        assert!(shown.contains(public), "{public} in {shown}");
    }
    assert!(yaml::parse(&shown).is_ok(), "{shown}");
}

#[test]
fn what_comes_back_unchanged_is_the_same_to_the_byte() {
    let hidden = hide(TEXT);
    assert_eq!(hidden.restore(&hidden.shown, &crate::schema()).expect("restored"), TEXT);
    let edited = hidden.shown.replace("default: m", "default: other # why");
    let expected = TEXT.replace("default: m", "default: other # why");
    assert_eq!(hidden.restore(&edited, &crate::schema()).expect("restored"), expected);
}

#[test]
fn a_secret_is_not_read_by_moving_its_marker_to_where_values_are_shown() {
    let hidden = hide("model:\n  api_key: sk-of-the-model\n");
    let restore = |text: &str| hidden.restore(text, &crate::schema());
    assert_eq!(restore("model:\n  default: <secret 1>\n"), Err(MarkerError::Exposed(1)));
    assert_eq!(restore("# see <secret 1>\n"), Err(MarkerError::Exposed(1)));
    assert_eq!(restore("model:\n  api_key: <secret 2>\n"), Err(MarkerError::Unknown(2)));
    let moved = restore("providers:\n  a: {api_key: <secret 1>}\n").expect("it is hidden there");
    assert_eq!(moved, "providers:\n  a: {api_key: sk-of-the-model}\n");
}

#[test]
fn a_value_behind_an_alias_is_hidden_where_it_is_written() {
    let text = "shared: &k sk-of-the-anchor\nmodel:\n  api_key: *k\n";
    let hidden = hide(text);
    assert!(!hidden.shown.contains("sk-of-the-anchor"), "{}", hidden.shown);
    assert_eq!(hidden.restore(&hidden.shown, &crate::schema()).expect("restored"), text);
}

#[test]
fn a_text_that_looks_like_a_marker_is_none() {
    let text = "a: \"<secret 1>\"\nmodel: {api_key: sk-of-the-model}\n";
    let hidden = hide(text);
    assert_eq!(hidden.shown, "a: \"<secret 1>\"\nmodel: {api_key: <_secret 1>}\n");
    assert_eq!(hidden.restore(&hidden.shown, &crate::schema()).expect("restored"), text);
}
