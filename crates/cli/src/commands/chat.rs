//! `vestal chat`: its options, and the conversation that they ask for.

mod directories;
mod host;
mod interactive;
mod once;
mod output;
mod question;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::Args;
use vestal_agent::TurnOutcome;
use vestal_api::{ErrorView, TurnExitReason, TurnView};
use vestal_config::{Environment, Settings};
use vestal_conversations::Title;
use vestal_model::{Part, UserMessage};
use vestal_runtime::{ConversationChoice, OpenRequest, SandboxChoice, SandboxPlacement, Toolsets};
use vestal_sandbox::TaskName;

use self::once::{OneShot, QuestionEnd};
use self::output::AnswerDisplay;
use crate::agent::{exit_of, failure_of};
use crate::cli::SandboxFlags;
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const CHAT_HELP: &str = "\
On a terminal and without -q this starts an interactive chat; /help lists its commands. With -q, or
without a terminal, the answer goes to standard output and everything else to standard error; text
piped in is added to the question. Conversations are saved: -c continues the last one, in the same
sandbox and the same shell session. A question that begins with /kanban is run as a board command,
without asking a model.

Exit codes: 0 answered, 1 no model is configured or no such conversation, 2 wrong usage,
3 the provider failed, 4 stopped by its budget or because it repeats itself, 5 the provider refused
to answer, 125 Vestal failed, 130 interrupted.

Examples:
  vestal chat
  vestal chat -c
  vestal chat -q 'what does this machine run?'
  git diff | vestal chat -q 'review this' --quiet > review.md
  vestal chat -c -q 'now fix it' --max-turns 30
  vestal chat -q '/kanban list'
  vestal chat -m openrouter:some/model --image shot.png -q 'what is wrong here?' --json";

/// Chat with the agent, which works in a durable sandbox; with -q, ask once and print the answer.
#[derive(Debug, Default, Args)]
#[command(after_help = CHAT_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ChatArgs {
    /// First message of the chat.
    #[arg(value_name = "WORDS", conflicts_with = "query")]
    words: Vec<String>,

    /// Ask this, print the answer and exit; `-` reads it from standard input.
    #[arg(short, long, value_name = "PROMPT", allow_hyphen_values = true)]
    query: Option<String>,

    /// Continue the last conversation.
    #[arg(short = 'c', long = "continue", conflicts_with = "resume")]
    goes_on: bool,

    /// Continue a conversation: its id, a unique prefix of it, or its title.
    #[arg(short, long, value_name = "ID|TITLE")]
    resume: Option<String>,

    /// Model to use instead of `model.default`: `MODEL` or `PROVIDER:MODEL`.
    #[arg(short, long, value_name = "NAME")]
    model: Option<String>,

    /// Attach an image to the question (PNG, JPEG, GIF, WebP); repeatable.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,

    /// Maximum number of model calls, instead of `agent.max_turns`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,

    /// Approve dangerous commands without asking; commands that are never allowed stay forbidden.
    #[arg(long)]
    yolo: bool,

    /// Print the final answer and nothing else.
    #[arg(short = 'Q', long, conflicts_with = "json")]
    quiet: bool,

    /// Print one JSON object when the turn has ended, even if it failed.
    #[arg(long)]
    json: bool,

    /// Toolsets to give to the agent, instead of `toolsets`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    toolsets: Option<Vec<String>>,

    /// Title of the conversation [default: made from the question].
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,

    /// Task whose sandbox the agent works in.
    #[arg(short, long, value_name = "TASK")]
    task: Option<TaskName>,

    /// Backend to use if the sandbox has to be created; an existing sandbox must be on it.
    #[arg(short, long, value_name = "BACKEND")]
    backend: Option<String>,

    /// Use the sandbox `TASK@DIRECTORY`, which has the current directory mounted as /workspace.
    #[arg(long)]
    mount_cwd: bool,
}

impl ChatArgs {
    /// Returns how the answer is shown while it comes.
    fn answer(&self) -> AnswerDisplay {
        if self.quiet || self.json {
            AnswerDisplay::Later
        } else if io::stdout().is_terminal() {
            AnswerDisplay::Streamed
        } else {
            AnswerDisplay::Whole
        }
    }

    fn is_silent(&self) -> bool {
        self.quiet || self.json
    }
}

impl ChatArgs {
    /// Reports whether this is an interactive chat.
    pub(crate) fn is_interactive(&self, environment: &Environment) -> bool {
        self.query.is_none() && !self.is_silent() && interactive::is_possible(environment)
    }
}

/// Reports whether a chat can be held here.
pub(crate) fn is_possible(environment: &Environment) -> bool {
    interactive::is_possible(environment)
}

pub(crate) async fn run(context: &Context, mut args: ChatArgs) -> Result<Exit, CommandFailure> {
    if args.is_interactive(context.environment()) {
        return Box::pin(interactive::run(context, &args)).await;
    }
    if !args.words.is_empty() {
        args.query = Some(std::mem::take(&mut args.words).join(" "));
    }
    // Only of what is typed: material that is piped in commands nothing.
    if let Some(command) = args.query.as_deref().and_then(host::parse_command) {
        return host::run_command(context, command).await;
    }
    if args.query.is_none()
        && !args.is_silent()
        && interactive::is_dumb(context.environment())
        && io::stdin().is_terminal()
    {
        return Err(CommandFailure::usage("a chat cannot be drawn on this terminal (TERM=dumb)")
            .advise("ask one question: vestal chat -q 'what is to be done'")
            .advise("or say what the terminal is: TERM=xterm-256color vestal chat"));
    }
    // Read before signals are handled, so that Ctrl-C still ends the program.
    let question = question(context, &args).await?;
    let end = Box::pin(OneShot { context, args: &args }.run(question)).await;
    let end = match end {
        Ok(end) => end,
        Err(failure) => {
            if args.json {
                context.console.print_json(&not_begun(&failure))?;
            }
            return Err(failure);
        }
    };
    match end {
        QuestionEnd::NotBegun(signal) | QuestionEnd::Left(signal) => {
            let exit = Exit::Terminated(signal);
            if args.json {
                let failure = CommandFailure::new("interrupted").with_exit(exit);
                context.console.print_json(&not_begun(&failure))?;
            }
            Ok(exit)
        }
        QuestionEnd::NoReader(failure) => Err(failure),
        QuestionEnd::Turn { result, signal } => {
            let exit = exit_of(&result, signal);
            let failure = failure_of(&result, signal);
            if args.json {
                let mut view = TurnView::new(&result, exit.code());
                if let Some(failure) = &failure {
                    view.set_error(unanswered(failure), failure.exit().code());
                }
                context.console.print_json(&view)?;
            } else if args.quiet && has_answer(&result.outcome) {
                let answer = output::trimmed(&result.text);
                let shown = io::stdout().is_terminal().then(|| text::harmless(&answer));
                context.console.write(shown.as_deref().unwrap_or(&answer))?;
            }
            if !args.is_silent() {
                once::print_summary(context, &result);
            }
            match failure {
                Some(failure) => Err(failure),
                None => Ok(exit),
            }
        }
    }
}

/// Returns the view of a turn that never began.
fn not_begun(failure: &CommandFailure) -> TurnView {
    let reason = match failure.exit() {
        Exit::Terminated(_) => TurnExitReason::Interrupted,
        _ => TurnExitReason::Failed,
    };
    TurnView::not_begun(reason, unanswered(failure), failure.exit().code())
}

/// Returns why there is no whole answer.
fn unanswered(failure: &CommandFailure) -> ErrorView {
    let unread = ErrorView { error: "the output is closed".to_owned(), advice: Vec::new() };
    failure.view().unwrap_or(unread)
}

/// Reports whether the last text of the model is meant for the person who asked.
fn has_answer(outcome: &TurnOutcome) -> bool {
    matches!(outcome, TurnOutcome::Completed | TurnOutcome::BudgetExhausted)
}

/// Returns what the command line says first in a chat.
fn first_message(args: &ChatArgs) -> Result<Option<UserMessage>, CommandFailure> {
    let mut parts = Vec::new();
    if !args.words.is_empty() {
        parts.push(Part::Text { text: args.words.join(" ") });
    }
    for path in &args.image {
        parts.push(Part::Image(question::read_image(path)?));
    }
    Ok((!parts.is_empty()).then_some(UserMessage { parts }))
}

async fn question(context: &Context, args: &ChatArgs) -> Result<UserMessage, CommandFailure> {
    let mut parts = Vec::new();
    for path in &args.image {
        parts.push(Part::Image(question::read_image(path)?));
    }
    let text = question::read_question(context.console, args.query.as_deref()).await?;
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

impl ChatArgs {
    /// Returns the request for the conversation that the command line asks for.
    pub(super) fn request(&self, context: &Context) -> Result<OpenRequest, CommandFailure> {
        let is_placed = self.task.is_some() || self.backend.is_some() || self.mount_cwd;
        let placement = if is_placed {
            let (backend, mount_cwd) = (self.backend.clone(), self.mount_cwd);
            let wanted = SandboxFlags { backend, image: None, mount_cwd };
            placement(context, self.task.clone(), &wanted)?
        } else {
            SandboxPlacement::Remembered
        };
        Ok(OpenRequest {
            which: match &self.resume {
                Some(wanted) => ConversationChoice::Named(wanted.clone()),
                None if self.goes_on => ConversationChoice::Latest,
                None => ConversationChoice::New,
            },
            title: self.title.clone().map(Title::Given),
            model: self.model.clone(),
            placement,
            cwd: std::env::current_dir().ok(),
            toolsets: self.toolsets.clone().map_or(Toolsets::Configured, Toolsets::Only),
            max_turns: self.max_turns,
            ..OpenRequest::new(SOURCE)
        })
    }
}

/// What conversations that begin here are marked with.
const SOURCE: &str = "cli";

/// Returns the sandbox that options of the command line ask for.
pub(super) fn placement(
    context: &Context,
    task: Option<TaskName>,
    wanted: &SandboxFlags,
) -> Result<SandboxPlacement, CommandFailure> {
    let task = task.unwrap_or_else(TaskName::default_task);
    Ok(SandboxPlacement::In(SandboxChoice::new(task, context.overrides(wanted)?)))
}

/// Returns the toolsets that are asked for by name.
pub(super) fn toolsets(
    settings: &Settings,
    wanted: Option<&[String]>,
) -> Result<Vec<String>, CommandFailure> {
    match wanted {
        Some(wanted) => Ok(wanted.to_vec()),
        None => Ok(vestal_agent::settings::selection(settings)?.toolsets),
    }
}
