use super::parse::parse_unless;
use super::*;

fn read(text: &str) -> Option<Result<Invocation, SlashError>> {
    parse_unless(text, |path| path == "/tmp")
}

fn reported(text: &str) -> Invocation {
    match read(text) {
        Some(Ok(invocation)) => invocation,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn only_what_begins_with_a_command_is_one() {
    for text in [
        "kanban list",
        "what is /kanban?",
        "",
        "// a comment",
        "//",
        "/etc/hosts is broken",
        "/tmp is full",
        "/ said",
        "/kanban/list",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
    assert_eq!(reported(" /kanban \n").words, [""; 0]);
    assert_eq!(reported("/kanban list").command.name, "kanban");
    assert_eq!(reported("/Q").command.name, "quit");
    assert_eq!(reported("/EXIT").command.name, "quit");
}

#[test]
fn a_command_of_the_name_of_a_path_is_the_command() {
    let read = parse_unless("/model", |_| true);
    assert_eq!(read.unwrap().unwrap().command.name, "model");
}

#[test]
fn words_are_divided_as_in_a_shell() {
    assert_eq!(
        reported(r#"/kanban create 'Write it'  --body "a \"b\" \n" c\ d '' e"f"g"#).words,
        ["create", "Write it", "--body", r#"a "b" \n"#, "c d", "", "efg"]
    );
    assert_eq!(
        reported("/kanban comment t_1 it\\'s $HOME `x`").words,
        ["comment", "t_1", "it's", "$HOME", "`x`"]
    );
    let unclosed = read("/kanban comment it's").unwrap().unwrap_err();
    assert_eq!(unclosed, SlashError::Unclosed(Unclosed('\'')));
    assert_eq!(unclosed.advice(), "for the sign itself: \\'");
}

#[test]
fn what_a_person_calls_something_is_taken_as_it_is() {
    assert_eq!(reported("/title  it's  \"fine\" ").rest, "it's  \"fine\"");
}

#[test]
fn an_unknown_command_gets_the_nearest_suggestion() {
    let meant = |text: &str| match read(text) {
        Some(Err(error @ SlashError::Unknown { .. })) => error.advice(),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(meant("/modle gpt"), "did you mean /model?");
    assert_eq!(meant("/comp"), "did you mean /compress?");
    assert_eq!(meant("/exti"), "did you mean /quit?");
    assert_eq!(meant("/kanbann"), "did you mean /kanban?");
    assert_eq!(meant("/zzzzzz"), "/help lists them");
    assert_eq!(meant("/é"), "/help lists them");
    let error = read("/modle").unwrap().unwrap_err();
    assert_eq!(error.to_string(), "there is no command /modle");
    assert_eq!(read("/"), Some(Err(SlashError::Empty)));
}

#[test]
fn a_command_that_takes_nothing_says_so_instead_of_ignoring_words() {
    let error = read("/retry it").unwrap().unwrap_err();
    assert_eq!(error, SlashError::TakesNothing { command: "retry" });
    assert_eq!(error.to_string(), "/retry takes no arguments");
}

proptest::proptest! {
    #[test]
    fn whatever_is_typed_is_read_without_a_panic(text in "/?.{0,40}", cut in 0_usize..60) {
        drop(read(&text));
        drop(complete(&text, cut));
        drop(read(&format!("/{text}")));
    }

    #[test]
    fn a_quoted_word_is_read_as_one(word in ".{0,30}") {
        proptest::prop_assert_eq!(words(&quoted(&word)), Ok(vec![word]));
    }
}
