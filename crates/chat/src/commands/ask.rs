//! Questions of the program's own, and choices.

use vestal_agent::Question;
use vestal_agent::slash::{Invocation, parse};

use crate::asked::Pending;
use crate::chat::Chat;

/// Asks something, and does what the answer makes of it: a command. No answer
/// makes nothing.
///
/// The chat goes on meanwhile: nothing waits for the person.
pub(super) fn choose(
    chat: &mut Chat,
    question: &str,
    choices: Vec<String>,
    then: impl FnOnce(&str) -> Option<Invocation> + Send + 'static,
) {
    let question = Question { question: question.to_owned(), choices };
    chat.ask(Pending::Choose { question, then: Box::new(then) });
}

/// Asks whether something is to be done, and does it: a command, as it is typed.
pub(super) fn confirm(chat: &mut Chat, question: &str, command: String) {
    let choices = vec!["yes".to_owned(), "no".to_owned()];
    choose(chat, question, choices, move |answer| is_yes(answer).then(|| told(&command))?);
}

/// Returns a command, as it is typed.
pub(super) fn told(command: &str) -> Option<Invocation> {
    parse(command)?.ok()
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}
