use super::*;

#[test]
fn a_name_tells_when_it_was_made_and_sorts_by_it() {
    let early = ConversationId::generate_at("2026-11-15T10:30:01Z".parse().unwrap()).unwrap();
    let late = ConversationId::generate_at("2026-11-15T10:30:02Z".parse().unwrap()).unwrap();
    assert_eq!(&early.as_str()[..16], "20261115-103001-");
    assert_eq!(early.as_str().len(), 22);
    assert!(early < late);
    assert_eq!(early.short(), &early.as_str()[16..]);
    assert_eq!(early.as_str().parse(), Ok(early.clone()));
}

#[test]
fn names_made_at_the_same_moment_differ() {
    let now = Timestamp::now();
    let made: std::collections::BTreeSet<_> =
        (0..200).map(|_| ConversationId::generate_at(now).unwrap()).collect();
    assert_eq!(made.len(), 200);
}

#[test]
fn what_is_unsafe_as_a_file_name_names_no_conversation() {
    for text in ["", "../x", "a/b", "a.b", "-x", "_x", "ä", "a b", "a\n", &"x".repeat(65)] {
        assert!(text.parse::<ConversationId>().is_err(), "{text:?}");
    }
    for text in ["a", "20260101_120000_ab12cd", "X-1", &"x".repeat(64)] {
        assert_eq!(text.parse::<ConversationId>().unwrap().as_str(), text);
    }
}
