//! `vestal chat`.

mod directories;
mod host;
mod image;
mod interactive;
mod opening;
mod prompt;
mod screen;
mod slash;
mod summary;
mod talk;
mod words;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::Args;
use vestal_agent::Outcome;
use vestal_api::{ErrorView, TurnExitReason, TurnView};
use vestal_config::Environment;
use vestal_model::{Part, UserMessage};
use vestal_sandbox::Task;

use crate::agent::{exit_of, failure_of};
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use screen::Answer;
use talk::{Talk, Talked};

const AFTER_HELP: &str = "\
On a terminal, and without -q, it is a chat: /help lists its commands. With -q, or where there is no
terminal, the answer goes to standard output and everything else to standard error; material that is
piped in goes below the question. Conversations are kept: -c goes on with the last one, in the same sandbox
and the same shell. A question that begins with /kanban is a command of the board: no model is asked.

Exit codes: 0 answered, 1 no model is configured or no such conversation, 2 wrong usage,
3 the provider failed, 4 stopped by its budget or going round in circles, 5 the provider refused
to answer, 125 Vestal failed, 130 interrupted.

Examples:
  vestal chat
  vestal chat -c
  vestal chat -q 'what does this machine run?'
  git diff | vestal chat -q 'review this' --quiet > review.md
  vestal chat -c -q 'now fix it' --max-turns 30
  vestal chat -q '/kanban list'
  vestal chat -m openrouter:some/model --image shot.png -q 'what is wrong here?' --json";

/// Talks to the agent, which works in the durable sandbox; with -q asks once and prints its answer.
#[derive(Debug, Default, Args)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ChatArgs {
    /// What is said first in the chat.
    #[arg(value_name = "WORDS", conflicts_with = "query")]
    words: Vec<String>,

    /// Asks this and prints the answer, instead of a chat; `-` reads it from standard input.
    #[arg(short, long, value_name = "PROMPT", allow_hyphen_values = true)]
    query: Option<String>,

    /// Goes on with the last conversation.
    #[arg(short = 'c', long = "continue", conflicts_with = "resume")]
    goes_on: bool,

    /// Goes on with a conversation, named by its id, a beginning of it, or its title.
    #[arg(short, long, value_name = "ID|TITLE")]
    resume: Option<String>,

    /// Model to ask, in place of `model.default`: `MODEL` or `PROVIDER:MODEL`.
    #[arg(short, long, value_name = "NAME")]
    model: Option<String>,

    /// Picture that goes with the question (PNG, JPEG, GIF, WebP); repeatable.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,

    /// Calls of the model that it may take, in place of `agent.max_turns`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,

    /// Lets the agent do what is dangerous without asking; what is never allowed stays so.
    #[arg(long)]
    yolo: bool,

    /// Prints the final answer and nothing else.
    #[arg(short = 'Q', long, conflicts_with = "json")]
    quiet: bool,

    /// Prints one JSON object when the turn has ended, also when it failed.
    #[arg(long)]
    json: bool,

    /// Toolsets the agent gets, in place of `toolsets`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    toolsets: Option<Vec<String>>,

    /// Title of the conversation; without one it is made from the question.
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,

    /// Task whose sandbox the agent works in.
    #[arg(short, long, value_name = "TASK")]
    task: Option<Task>,

    /// Backend of a sandbox that is about to be made; it stays with the sandbox.
    #[arg(short, long, value_name = "BACKEND")]
    backend: Option<String>,

    /// Uses the sandbox that has the current directory as its /workspace: `TASK@DIRECTORY`.
    #[arg(long)]
    mount_cwd: bool,
}

impl ChatArgs {
    /// Returns how the answer is shown while it comes.
    fn answer(&self) -> Answer {
        if self.quiet || self.json {
            Answer::Later
        } else if io::stdout().is_terminal() {
            Answer::Streamed
        } else {
            Answer::Whole
        }
    }

    fn is_silent(&self) -> bool {
        self.quiet || self.json
    }
}

impl ChatArgs {
    /// Reports whether somebody is to chat, on this terminal.
    pub(crate) fn is_interactive(&self, environment: &Environment) -> bool {
        self.query.is_none() && !self.is_silent() && interactive::is_possible(environment)
    }
}

/// Reports whether a chat can be held here.
pub(crate) fn is_possible(environment: &Environment) -> bool {
    interactive::is_possible(environment)
}

pub(crate) async fn run(context: &Context, mut args: ChatArgs) -> Result<Exit, Failure> {
    if args.is_interactive(context.environment()) {
        return Box::pin(interactive::run(context, &args)).await;
    }
    if !args.words.is_empty() {
        args.query = Some(std::mem::take(&mut args.words).join(" "));
    }
    // Only of what is typed: material that is piped in commands nothing.
    if let Some(told) = args.query.as_deref().and_then(slash::read) {
        return slash::obey(context, told).await;
    }
    // Before signals are listened for: whoever types the question can still leave.
    let question = question(context, &args).await?;
    let talked = Box::pin(Talk { context, args: &args }.run(question)).await;
    let talked = match talked {
        Ok(talked) => talked,
        Err(failure) => {
            if args.json {
                context.console.print_json(&not_begun(&failure))?;
            }
            return Err(failure);
        }
    };
    match talked {
        Talked::NotBegun(signal) | Talked::Left(signal) => {
            let exit = Exit::Terminated(signal);
            if args.json {
                let failure = Failure::new("interrupted").with_exit(exit);
                context.console.print_json(&not_begun(&failure))?;
            }
            Ok(exit)
        }
        Talked::NoReader(failure) => Err(failure),
        Talked::Turn { result, signal } => {
            let exit = exit_of(&result, signal);
            let failure = failure_of(&result, signal);
            if args.json {
                let mut view = TurnView::new(&result, exit.code());
                if let Some(failure) = &failure {
                    view.set_error(unanswered(failure), failure.exit().code());
                }
                context.console.print_json(&view)?;
            } else if args.quiet && has_answer(&result.outcome) {
                let answer = words::whole(&result.text);
                let shown = io::stdout().is_terminal().then(|| text::harmless(&answer));
                context.console.write(shown.as_deref().unwrap_or(&answer))?;
            }
            if !args.is_silent() {
                summary::tell(context, &result);
            }
            match failure {
                Some(failure) => Err(failure),
                None => Ok(exit),
            }
        }
    }
}

/// Returns what is told of a turn that never began.
fn not_begun(failure: &Failure) -> TurnView {
    let reason = match failure.exit() {
        Exit::Terminated(_) => TurnExitReason::Interrupted,
        _ => TurnExitReason::Failed,
    };
    TurnView::not_begun(reason, unanswered(failure), failure.exit().code())
}

/// Returns why there is no whole answer.
fn unanswered(failure: &Failure) -> ErrorView {
    let unread = ErrorView { error: "nobody reads the output".to_owned(), advice: Vec::new() };
    failure.view().unwrap_or(unread)
}

/// Reports whether what the model said last is meant for the person who asked.
fn has_answer(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Completed | Outcome::BudgetExhausted)
}

/// Returns what the command line says first in a chat.
fn first_message(args: &ChatArgs) -> Result<Option<UserMessage>, Failure> {
    let mut parts = Vec::new();
    if !args.words.is_empty() {
        parts.push(Part::Text { text: args.words.join(" ") });
    }
    for path in &args.image {
        parts.push(Part::Image(image::read(path)?));
    }
    Ok((!parts.is_empty()).then_some(UserMessage { parts }))
}

async fn question(context: &Context, args: &ChatArgs) -> Result<UserMessage, Failure> {
    let mut parts = Vec::new();
    for path in &args.image {
        parts.push(Part::Image(image::read(path)?));
    }
    let text = prompt::read(context.console, args.query.as_deref()).await?;
    parts.insert(0, Part::Text { text });
    // Only what is typed names files: material that is piped in names what it likes.
    let typed = args.query.clone().filter(|query| query != "-").unwrap_or_default();
    let home = context.environment().non_empty("HOME").map(PathBuf::from);
    let found = vestal_chat::attachments::attach(typed, home.as_deref());
    parts.extend(found.message.parts.into_iter().skip(1));
    for about in found.attached {
        context.console.note(&format!("attached {about}"));
    }
    for error in found.errors {
        context.console.warn(&error.problem);
    }
    Ok(UserMessage { parts })
}
