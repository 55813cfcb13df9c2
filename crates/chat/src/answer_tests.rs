use super::*;

fn texts(lines: &[Line]) -> Vec<String> {
    lines.iter().map(Line::text).collect()
}

#[test]
fn a_short_answer_is_held_back_until_it_is_known_to_count() {
    let mut answer = Answer::new(40);
    assert!(answer.push("one\n\ntwo\n\nthr").is_empty());
    assert!(texts(&answer.live(20)).contains(&"one".to_owned()));
    assert!(!answer.discard(), "nothing was printed for good");
    assert!(answer.live(20).is_empty());
}

#[test]
fn of_a_long_answer_only_the_last_lines_are_held_back() {
    let mut answer = Answer::new(40);
    let mut printed = Vec::new();
    for number in 0..50 {
        printed.extend(answer.push(&format!("paragraph {number}\n\n")));
    }
    assert!(printed.len() > 50, "{}", printed.len());
    assert!(answer.live(100).len() <= HELD + 3);
    printed.extend(answer.end());
    let said: Vec<String> = texts(&printed).into_iter().filter(|line| !line.is_empty()).collect();
    let expected: Vec<String> = (0..50).map(|number| format!("paragraph {number}")).collect();
    assert_eq!(said, expected);
    assert!(!answer.is_begun());
}

#[test]
fn that_something_was_printed_of_a_void_answer_is_known() {
    let mut answer = Answer::new(40);
    for number in 0..50 {
        answer.push(&format!("paragraph {number}\n\n"));
    }
    assert!(answer.discard());
    assert!(!answer.discard(), "it is said once");
}

#[test]
fn thoughts_are_shown_line_by_line() {
    let mut reasoning = ReasoningText::default();
    assert!(reasoning.push("I should lo", 40).is_empty());
    assert_eq!(texts(&reasoning.live(40)), ["  I should lo"]);
    assert_eq!(texts(&reasoning.push("ok\n\nand th", 40)), ["  I should look"]);
    assert_eq!(texts(&reasoning.end(40)), ["  and th"]);
    assert!(reasoning.end(40).is_empty());
}

#[test]
fn what_counts_of_an_answer_stays_when_what_followed_it_is_void() {
    let mut answer = Answer::new(40);
    let mut printed = Vec::new();
    for number in 0..12 {
        printed.extend(answer.push(&format!("paragraph {number}\n\n")));
    }
    printed.extend(answer.push("a sentence that was cut "));
    answer.settle();
    // A short discarded part was not printed.
    printed.extend(answer.push("wrong\n\n"));
    assert!(!answer.discard());
    // A long one was.
    let mut void = Vec::new();
    for number in 0..20 {
        void.extend(answer.push(&format!("nonsense {number}\n\n")));
    }
    let counts = |line: &&Line| line.text().starts_with("paragraph");
    printed.extend(void.iter().filter(counts).cloned());
    assert!(answer.discard());
    printed.extend(answer.push("off and goes on"));
    printed.extend(answer.end());
    let said: Vec<String> = texts(&printed).into_iter().filter(|line| !line.is_empty()).collect();
    let mut expected: Vec<String> = (0..12).map(|number| format!("paragraph {number}")).collect();
    expected.push("a sentence that was cut off and goes on".to_owned());
    assert_eq!(said, expected);
    assert!(!answer.discard(), "nothing is left of it");
}
