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

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let question = match question(arguments) {
            Ok(question) => question,
            Err(bad) => return bad.into(),
        };
        if !context.human.is_present() {
            return ToolOutput::error(
                "nobody is there to answer; decide yourself, and say in your answer what you assumed",
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
#[path = "clarify_tests.rs"]
mod tests;
