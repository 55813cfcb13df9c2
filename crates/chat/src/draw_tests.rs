use vestal_model::AssistantMessage;

use super::*;

fn answer(text: &str) -> Message {
    Message::Assistant(AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() })
}

#[test]
fn only_the_last_exchanges_are_shown_and_of_long_ones_the_beginning() {
    let long: Vec<String> = (1..=20).map(|number| format!("line {number}\n")).collect();
    let long = long.concat();
    let said: Vec<Message> = (1..=5)
        .flat_map(|number| {
            let words = Message::user(format!("question {number}"));
            [words, answer(if number == 5 { &long } else { "fine" })]
        })
        .collect();
    let said: Vec<&Message> = said.iter().collect();
    let lines = last_exchanges(&said, 60);
    let texts: Vec<String> = lines.iter().map(Line::text).collect();
    assert_eq!(
        texts.join("\n"),
        "…\n› question 3\n  fine\n› question 4\n  fine\n› question 5\n  line 1\n  line 2\n  line 3\n  line 4\n  line 5\n  line 6\n  …"
    );
    assert_eq!(last_exchanges(&[], 60), Vec::new());
}
