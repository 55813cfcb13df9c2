use super::*;

fn request() -> ApprovalRequest {
    ApprovalRequest {
        action: "rm -rf build".to_owned(),
        reason: "deletes a directory".to_owned(),
        pattern: "rm -rf *".to_owned(),
        may_last: true,
    }
}

#[test]
fn only_a_clear_word_approves() {
    assert_eq!(read_approval("o", true), Some(Approval::Once));
    assert_eq!(read_approval(" Yes ", true), Some(Approval::Once));
    assert_eq!(read_approval("c", true), Some(Approval::Conversation));
    assert_eq!(read_approval("always", true), Some(Approval::Always));
    assert_eq!(read_approval("always", false), None);
    assert_eq!(read_approval("deny", true), Some(Approval::Deny(None)));
    let reason = Some("use git rm".to_owned());
    assert_eq!(read_approval("no, use git rm", true), Some(Approval::Deny(reason)));
    for unclear in ["", "x", "ok go", "once more", "yes but not that file"] {
        assert_eq!(read_approval(unclear, true), None, "{unclear}");
    }
}

#[test]
fn a_number_chooses_and_other_words_are_an_answer_too() {
    let choices = ["red".to_owned(), "blue".to_owned()];
    assert_eq!(read_answer("2", &choices), Some("blue".to_owned()));
    assert_eq!(read_answer("3", &choices), Some("3".to_owned()));
    assert_eq!(read_answer(" green ", &choices), Some("green".to_owned()));
    assert_eq!(read_answer("  ", &choices), None);
}

#[tokio::test]
async fn a_question_that_is_given_up_is_known_to_be() {
    let (human, mut questions) = question_channel();
    let asking = tokio::spawn({
        let human = Arc::clone(&human);
        async move { human.approve(&request()).await }
    });
    let mut pending = questions.next().await;
    assert!(!pending.is_abandoned());
    asking.abort();
    pending.abandoned().await;
    assert!(pending.is_abandoned());
}

#[tokio::test]
async fn nobody_who_left_approves_of_anything() {
    let (human, mut questions) = question_channel();
    let asking = tokio::spawn({
        let human = Arc::clone(&human);
        async move { human.approve(&request()).await }
    });
    drop(questions.next().await);
    assert_eq!(asking.await.unwrap(), Approval::Deny(None));
    drop(questions);
    assert!(!human.is_present());
    assert_eq!(human.approve(&request()).await, Approval::Deny(None));
}

#[test]
fn a_question_hears_its_keys_when_it_was_seen_and_nothing_typed_for_a_while() {
    let seen = Instant::now();
    let later = seen + Duration::from_millis(300);
    assert_eq!(armed_at(seen, None), seen + PAUSE);
    assert_eq!(armed_at(seen, Some(later)), later + PAUSE);
    assert_eq!(armed_at(later, Some(seen)), later + PAUSE);
}
