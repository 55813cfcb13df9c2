//! A command of a conversation where a single question was expected.

use vestal_agent::slash::{self, Invocation, Reach, SlashError};

use crate::commands::kanban;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::{cli, program};

/// What somebody typed for the program.
pub(super) type Told = Result<Invocation, SlashError>;

/// Reads what somebody typed; nothing where it is meant for the model. In a
/// single question a name that is no command's may well be, too: nobody sees a
/// suggestion in time.
pub(super) fn read(text: &str) -> Option<Told> {
    slash::parse(text)
        .filter(|told| !matches!(told, Err(SlashError::Unknown { .. } | SlashError::Empty)))
}

/// Does what is said to the program and not to the model.
pub(super) async fn obey(context: &Context, told: Told) -> Result<Exit, Failure> {
    let Invocation { command, words, .. } =
        told.map_err(|error| Failure::usage(error.to_string()).advise(error.advice()))?;
    match (command.reach, command.name) {
        // Without words it says in short what there is.
        (Reach::Verb(["kanban"]), _) => kanban::chat::run(context, &words).await,
        (Reach::Verb(verb), _) => run_verb(context, verb, words).await,
        (_, "help") => help(context, &words),
        (_, "model") => match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["--global" | "-g", name] => {
                run_verb(context, &["model", "set"], vec![(*name).to_owned()]).await
            }
            [] | ["list" | "set" | "setup", ..] => run_verb(context, &["model"], words).await,
            [flag, ..] if flag.starts_with('-') => run_verb(context, &["model"], words).await,
            _ => Err(of_conversation(command.name)),
        },
        (Reach::Conversation | Reach::Terminal, name) => Err(of_conversation(name)),
    }
}

async fn run_verb(context: &Context, verb: &[&str], words: Vec<String>) -> Result<Exit, Failure> {
    let line: Vec<String> = verb.iter().map(|word| (*word).to_owned()).chain(words).collect();
    let parsed = match cli::parse_words(&line) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(context.console.explain_usage(&error)),
    };
    match parsed.verb {
        // A verb may be a chat again, which is why it is not part of this one.
        Some(verb) => Box::pin(program::dispatch(context, verb)).await,
        None => Err(Failure::usage(format!("{} is no verb", line.join(" ")))),
    }
}

fn of_conversation(name: &str) -> Failure {
    Failure::usage(format!("/{name} is for an open conversation"))
        .advise("to go on with the last one: vestal chat -c")
}

fn help(context: &Context, words: &[String]) -> Result<Exit, Failure> {
    let page = match words.first() {
        None => slash::help(),
        Some(name) => {
            let name = name.trim_start_matches('/');
            match slash::find(name) {
                Some(command) => slash::help_of(command),
                None => return Err(Failure::usage(format!("there is no command /{name}"))),
            }
        }
    };
    context.console.print(page.trim_end())?;
    Ok(Exit::Success)
}
