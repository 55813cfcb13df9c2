use super::*;

fn texts(lines: &[Line]) -> Vec<String> {
    lines.iter().map(Line::text).collect()
}

#[test]
fn a_short_answer_is_held_back_until_it_is_known_to_count() {
    let mut answer = StreamedAnswer::new(40);
    assert!(answer.push("one\n\ntwo\n\nthr").is_empty());
    assert!(texts(&answer.live(20)).contains(&"one".to_owned()));
    assert!(!answer.discard(), "nothing was printed for good");
    assert!(answer.live(20).is_empty());
}

#[test]
fn of_a_long_answer_only_the_last_lines_are_held_back() {
    let mut answer = StreamedAnswer::new(40);
    let mut printed = Vec::new();
    for number in 0..50 {
        printed.extend(answer.push(&format!("paragraph {number}\n\n")));
    }
    assert!(printed.len() > 50, "{}", printed.len());
    assert!(answer.live(100).len() <= HELD_LINES + 3);
    printed.extend(answer.end());
    let reply: Vec<String> = texts(&printed).into_iter().filter(|line| !line.is_empty()).collect();
    let expected: Vec<String> = (0..50).map(|number| format!("paragraph {number}")).collect();
    assert_eq!(reply, expected);
    assert!(!answer.is_begun());
}

#[test]
fn that_something_was_printed_of_a_void_answer_is_known() {
    let mut answer = StreamedAnswer::new(40);
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
    let mut answer = StreamedAnswer::new(40);
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
    let reply: Vec<String> = texts(&printed).into_iter().filter(|line| !line.is_empty()).collect();
    let mut expected: Vec<String> = (0..12).map(|number| format!("paragraph {number}")).collect();
    expected.push("a sentence that was cut off and goes on".to_owned());
    assert_eq!(reply, expected);
    assert!(!answer.discard(), "nothing is left of it");
}

#[test]
fn the_last_lines_that_say_something_are_seen() {
    let tails = OutputTails::default();
    tails.push("a", "one\ntwo\n");
    tails.push("a", "\nthr");
    tails.push("a", "ee\n\n");
    assert_eq!(tails.last("a", 2), ["two", "three"]);
    assert_eq!(tails.last("b", 2), Vec::<String>::new());
    assert_eq!(tails.take("a").count(), 3);
    assert!(tails.take("a").is_empty());
}

#[test]
fn a_line_that_is_written_over_is_seen_as_it_is_in_the_end() {
    let mut tail = OutputTail::default();
    tail.push("10%\r50%\r100%\r\ndone\r");
    assert_eq!(tail.last(9), ["100%", "done"]);
}

#[test]
fn ten_megabytes_cost_no_more_than_their_end() {
    let mut tail = OutputTail::default();
    for number in 0..100_000 {
        tail.push(&format!("é line {number:090}\n"));
    }
    assert!(tail.size() <= 2 * TAIL_BYTES + 200, "{}", tail.size());
    assert!(tail.is_cut());
    assert!(tail.last(1)[0].ends_with("99999"));
    tail.push(&"é".repeat(TAIL_BYTES));
    assert!(tail.size() <= 2 * TAIL_BYTES, "{}", tail.size());
}

fn call(about: &str, printed: &str) -> FoldedOutput {
    let mut tail = OutputTail::default();
    tail.push(printed);
    FoldedOutput { about: about.to_owned(), tail, changes: Vec::new() }
}

#[test]
fn calls_are_unfolded_from_the_newest_on_and_each_once() {
    let mut folded = FoldedOutputs::default();
    folded.keep(call("first", "a\nb\n"));
    folded.keep(call("second", "c"));
    let texts = |lines: Option<Vec<Line>>| -> Vec<String> {
        lines.unwrap_or_default().iter().map(Line::text).collect()
    };
    assert_eq!(texts(folded.expand_last()), ["▾ second", "  c"]);
    assert_eq!(texts(folded.expand_last()), ["▾ first", "  a", "  b"]);
    assert_eq!(folded.expand_last(), None);
    assert_eq!(folded.size, 0);
}

#[test]
fn an_hour_of_calls_costs_no_more_than_what_can_be_unfolded() {
    let mut folded = FoldedOutputs::default();
    for number in 0..1000 {
        folded.keep(call(&format!("call {number}"), &"x".repeat(TAIL_BYTES)));
    }
    assert!(folded.size <= FOLDED_BYTES, "{}", folded.size);
    assert!(folded.kept.len() >= 10, "{}", folded.kept.len());
    assert!(folded.expand_last().unwrap()[0].text().ends_with("call 999"));
}
