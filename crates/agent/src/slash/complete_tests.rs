use super::*;

fn texts(text: &str) -> Vec<String> {
    let completing = complete(text, text.len()).unwrap();
    completing.candidates.into_iter().map(|candidate| candidate.text).collect()
}

#[test]
fn names_and_aliases_are_completed() {
    assert_eq!(texts("/mo"), ["/model "]);
    let begun = ["/continue ", "/conversations ", "/compress ", "/copy ", "/cost ", "/config "];
    assert_eq!(texts("/co"), begun);
    assert_eq!(texts("/").len(), COMMANDS.len());
    assert_eq!(texts("/box"), ["/box "], "an alias that begins so");
    assert_eq!(texts("/PROVAL"), ["/approvals "], "nothing begins so");
    assert_eq!(texts("/modle"), [""; 0]);
    assert_eq!(complete("/mo", 3).unwrap().replaces, 0..3);
}

#[test]
fn words_and_what_they_want_are_known() {
    assert_eq!(texts("/sandbox re"), ["restore ", "rebuild ", "reset "]);
    let restore = complete("/sandbox restore 2026", 21).unwrap();
    assert_eq!((restore.wanted, restore.typed.as_str()), (Some(ArgumentKind::Snapshot), "2026"));
    assert_eq!(restore.replaces, 17..21);
    let model = complete("/model ", 7).unwrap();
    assert_eq!(model.wanted, Some(ArgumentKind::Model));
    assert_eq!(model.candidates.len(), 2);
    assert_eq!(complete("/model --global op", 18).unwrap().wanted, Some(ArgumentKind::Model));
    assert_eq!(texts("/help ya"), [""; 0]);
    assert_eq!(texts("/help yo"), ["yolo "]);
}

#[test]
fn the_words_of_a_verb_are_the_verbs() {
    let text = "/sessions search --li";
    let completing = complete(text, text.len()).unwrap();
    assert_eq!(completing.wanted, Some(ArgumentKind::Verb));
    assert_eq!(completing.verb, ["conversations", "search"]);
    assert_eq!(completing.typed, "--li");
}

#[test]
fn what_is_no_command_is_not_completed() {
    for text in ["", "a /mo", "/etc/ho", "/nonsense a"] {
        assert_eq!(complete(text, text.len()), None, "{text}");
    }
    // In the middle of a character, or beyond the end.
    assert_eq!(complete("/é", 2), None);
    assert_eq!(complete("/mo", 9), None);
}
