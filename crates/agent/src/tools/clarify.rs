//! `clarify`: a question to the person.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use vestal_model::ToolSpec;

use super::arguments::{BadArgument, NonEmptyString, parse, tool_spec};
use crate::human::Question;
use crate::tool::{Tool, ToolContext, ToolOutput};

/// Answers to choose from.
const MOST_CHOICES: usize = 4;

const DESCRIPTION: &str = "\
Asks the user a question and waits for the answer. Give up to four `choices` where that helps; the user can always \
answer something else. Ask when the task is ambiguous in a way that matters, or when the decision is the user's; \
do not ask for permission to continue, nor for what you can find out yourself.";

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clarify;

#[derive(Deserialize, JsonSchema)]
struct ClarifyArguments {
    /// The question, without the choices.
    question: NonEmptyString,
    /// Answers to choose from; absent for a free answer.
    #[serde(default)]
    #[schemars(length(max = MOST_CHOICES))]
    choices: Vec<String>,
}

fn question(arguments: Value) -> Result<Question, BadArgument> {
    let ClarifyArguments { question, choices } = parse(arguments)?;
    let question = question.trim().to_owned();
    let choices = choices.into_iter().map(|choice| choice.trim().to_owned());
    let choices: Vec<String> = choices.filter(|choice| !choice.is_empty()).collect();
    if choices.len() > MOST_CHOICES {
        return Err(BadArgument::new(format!(
            "`choices` has at most {MOST_CHOICES} entries, got {}; other answers are always possible",
            choices.len()
        )));
    }
    Ok(Question { question, choices })
}

#[async_trait]
impl Tool for Clarify {
    fn spec(&self) -> ToolSpec {
        tool_spec::<ClarifyArguments>("clarify", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        "clarify"
    }

    fn needs_person(&self) -> bool {
        true
    }

    fn only_reads(&self, _: &Value) -> bool {
        true
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let question = match question(arguments) {
            Ok(question) => question,
            Err(bad) => return bad.into(),
        };
        if !context.human.is_present() {
            return ToolOutput::error(
                "no user is available to answer; decide yourself, and say in your answer what you assumed",
            );
        }
        let limit = context.limits.clarify_timeout;
        let answer = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return ToolOutput::error("the turn was interrupted before there was an answer"),
            answer = timeout(limit, context.human.clarify(&question)) => answer,
        };
        match answer {
            Ok(Some(answer)) => ToolOutput::json(&json!({
                "question": question.question,
                "choices_offered": question.choices,
                "user_response": answer.trim(),
            })),
            Ok(None) => ToolOutput::error(
                "the person gave no answer; decide yourself, and say in your answer what you assumed",
            ),
            Err(_) => ToolOutput::error(format!(
                "there was no answer within {} s; decide yourself, and say in your answer what you assumed",
                limit.as_secs()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;

    use super::Clarify;
    use crate::testing::{AgentFixture, Scripted, until};

    #[tokio::test]
    async fn an_answer_comes_back_with_its_question() {
        let human = Scripted::answering([Some(" the second ".to_owned())]);
        let stage = AgentFixture::new().with_human(human.clone());
        let asked = json!({"question": " Which? ", "choices": ["first", " ", "second"]});
        let result = stage.call(&Clarify, asked).await;
        let expected = json!({"question": "Which?", "choices_offered": ["first", "second"], "user_response": "the second"});
        assert_eq!(result, expected);
        assert_eq!(human.asked(), ["Which?"]);
    }

    #[tokio::test]
    async fn without_a_person_the_call_fails_at_once() {
        let stage = AgentFixture::new();
        let output = stage.output(&Clarify, json!({"question": "Which?"})).await;
        assert!(output.is_error && output.content.contains("no user is available"));
        let stage = AgentFixture::new().with_human(Scripted::answering([None]));
        let output = stage.output(&Clarify, json!({"question": "Which?"})).await;
        assert!(output.is_error && output.content.contains("gave no answer"));
    }

    #[tokio::test]
    async fn silence_ends_with_the_time_and_with_the_turn() {
        let stage = AgentFixture::new()
            .with_human(Arc::new(Scripted::default()))
            .with_limits(|limits| limits.clarify_timeout = Duration::from_millis(20));
        let output = stage.output(&Clarify, json!({"question": "Which?"})).await;
        assert!(output.is_error && output.content.contains("no answer within"));
        let human = Arc::new(Scripted::default());
        let stage = AgentFixture::new().with_human(human.clone());
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
        let stage = AgentFixture::new().with_human(Arc::new(Scripted::default()));
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
}
