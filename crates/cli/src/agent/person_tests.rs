use super::*;

#[test]
fn only_a_clear_word_approves() {
    assert_eq!(read_approval("o", true), Some(Approval::Once));
    assert_eq!(read_approval(" Once ", true), Some(Approval::Once));
    assert_eq!(read_approval("c", true), Some(Approval::Conversation));
    assert_eq!(read_approval("a", true), Some(Approval::Always));
    assert_eq!(read_approval("a", false), None);
    assert_eq!(read_approval("d", true), Some(Approval::Deny(None)));
    let reason = Some("use git rm".to_owned());
    assert_eq!(read_approval("no use git rm", true), Some(Approval::Deny(reason)));
    for unclear in ["", "x", "ok go", "once more", "yes but not that file"] {
        assert_eq!(read_approval(unclear, true), None, "{unclear}");
    }
}

#[test]
fn a_number_chooses_and_other_words_are_an_answer_too() {
    let choices = ["red".to_owned(), "blue".to_owned()];
    assert_eq!(read_answer("2", &choices), Some("blue".to_owned()));
    assert_eq!(read_answer("3", &choices), Some("3".to_owned()));
    assert_eq!(read_answer("0", &choices), Some("0".to_owned()));
    assert_eq!(read_answer(" green ", &choices), Some("green".to_owned()));
    assert_eq!(read_answer("  ", &choices), None);
}

#[test]
fn what_is_asked_about_cannot_command_the_terminal() {
    let request = ApprovalRequest {
        action: "rm -rf x\x1b[2K\necho hidden".to_owned(),
        reason: "it deletes".to_owned(),
        pattern: "rm -rf *".to_owned(),
        may_last: false,
    };
    let words = approval_words(&request, Duration::from_mins(1));
    assert!(words.contains("  rm -rf x\\x1b[2K\n  echo hidden\n"), "{words}");
    assert!(!words.contains("[a]lways") && !words.contains('\x1b'), "{words}");
    let lasting = ApprovalRequest { may_last: true, ..request };
    assert!(approval_words(&lasting, Duration::from_mins(1)).contains("always: rm -rf *"));
}
