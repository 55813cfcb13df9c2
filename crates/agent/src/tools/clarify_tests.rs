use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::Clarify;
use crate::testing::{Scripted, Stage, until};

#[tokio::test]
async fn an_answer_comes_back_with_its_question() {
    let human = Scripted::answering([Some(" the second ".to_owned())]);
    let stage = Stage::new().with_human(human.clone());
    let asked = json!({"question": " Which? ", "choices": ["first", " ", "second"]});
    let result = stage.call(&Clarify, asked).await;
    let expected = json!({"question": "Which?", "choices_offered": ["first", "second"], "user_response": "the second"});
    assert_eq!(result, expected);
    assert_eq!(human.asked(), ["Which?"]);
}

#[tokio::test]
async fn nobody_there_is_said_at_once() {
    let stage = Stage::new();
    let output = stage.output(&Clarify, json!({"question": "Which?"})).await;
    assert!(output.is_error && output.content.contains("nobody is there"));
    let stage = Stage::new().with_human(Scripted::answering([None]));
    let output = stage.output(&Clarify, json!({"question": "Which?"})).await;
    assert!(output.is_error && output.content.contains("gave no answer"));
}

#[tokio::test]
async fn silence_ends_with_the_time_and_with_the_turn() {
    let stage = Stage::new()
        .with_human(Arc::new(Scripted::default()))
        .with_limits(|limits| limits.clarify_timeout = Duration::from_millis(20));
    let output = stage.output(&Clarify, json!({"question": "Which?"})).await;
    assert!(output.is_error && output.content.contains("no answer within"));
    let human = Arc::new(Scripted::default());
    let stage = Stage::new().with_human(human.clone());
    let interrupting = async {
        until("it is asked", || !human.asked().is_empty()).await;
        stage.context.cancel.cancel();
    };
    let asking = stage.output(&Clarify, json!({"question": "Which?"}));
    let (output, ()) = tokio::join!(asking, interrupting);
    assert!(output.is_error && output.content.contains("interrupted"));
}

#[tokio::test]
async fn a_question_that_cannot_be_asked_is_refused() {
    let stage = Stage::new().with_human(Arc::new(Scripted::default()));
    for (arguments, complaint) in [
        (json!({"question": " "}), "`question` must not be empty"),
        (
            json!({"question": "?", "choices": ["a", "b", "c", "d", "e"]}),
            "at most 4 entries, got 5",
        ),
    ] {
        let result = stage.call(&Clarify, arguments).await;
        assert!(result["error"].as_str().unwrap().contains(complaint), "{result}");
    }
}
