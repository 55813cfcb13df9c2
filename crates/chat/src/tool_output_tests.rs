use super::*;

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
    assert!(folded.size <= KEPT_BYTES, "{}", folded.size);
    assert!(folded.kept.len() >= 10, "{}", folded.kept.len());
    assert!(folded.expand_last().unwrap()[0].text().ends_with("call 999"));
}
