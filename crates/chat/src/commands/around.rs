//! Commands that are verbs of the command line.

use vestal_agent::slash::Invocation;

use crate::chat::Chat;

/// Runs the verb. What is typed without words shows what there is.
pub(super) async fn run(chat: &mut Chat, verb: &[&str], invocation: &Invocation) {
    let mut words: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
    if invocation.words.is_empty() {
        words.extend(by_default(invocation.command.name).iter().map(|word| (*word).to_owned()));
    }
    words.extend(invocation.words.iter().cloned());
    let went_well = chat.aside(words).await;
    if went_well
        && matches!(
            (invocation.command.name, invocation.strs().as_slice()),
            ("config", ["set", ..])
        )
    {
        chat.note(
            "what is said of models and tools counts in the next conversation (/new), a model's address and key from the next turn on, all else in the next chat",
        );
    }
}

/// Returns the words of a verb that shows what there is.
fn by_default(command: &str) -> &'static [&'static str] {
    match command {
        "sessions" | "kanban" | "profile" | "skills" | "mcp" => &["list"],
        "config" | "memory" => &["show"],
        _ => &[],
    }
}
