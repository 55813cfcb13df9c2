use super::*;

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
