//! The program around an interactive chat, and commands of the chat that run a command of the program.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, block_in_place};
use vestal_agent::Human;
use vestal_agent::slash::{self, CommandKind, Invocation, SlashError};
use vestal_chat::{ChatError, ChatHost, OpenTarget, OpenedConversation};
use vestal_conversations::Title;
use vestal_runtime::{
    ConversationChoice, OpenRequest, Runtime, SandboxChoice, SandboxPlacement, Terminations,
};
use vestal_sandbox::{Overrides, TaskName};

use crate::cli::{self, Global, Verb};
use crate::commands::kanban;
use crate::console::{self, CancelAnswers, TerminalMessage};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::{self, Exit};

/// How long a command has to end by itself after Ctrl-C.
const GRACE: Duration = Duration::from_secs(2);

pub(super) struct ChatProgram {
    pub(super) context: Context,
    pub(super) global: Global,
    pub(super) runtime: Runtime,
    pub(super) human: Arc<dyn Human>,
    /// What the command line asks for.
    pub(super) request: OpenRequest,
    /// Whether everything is allowed in the first conversation.
    pub(super) yolo: bool,
    /// Takes messages while the chat draws on the terminal.
    pub(super) receiver: Arc<dyn Fn(TerminalMessage) + Send + Sync>,
    /// The sandbox of the conversation before.
    pub(super) last: Mutex<Option<SandboxChoice>>,
}

impl ChatProgram {
    fn request_for(&self, what: &OpenTarget) -> OpenRequest {
        let base = || OpenRequest {
            cwd: self.request.cwd.clone(),
            toolsets: self.request.toolsets.clone(),
            max_turns: self.request.max_turns,
            ..OpenRequest::new(self.request.source.clone())
        };
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let other = |task: &TaskName| {
            SandboxPlacement::In(SandboxChoice::new(task.clone(), Overrides::default()))
        };
        match what {
            OpenTarget::First => self.request.clone(),
            OpenTarget::New { task, model, title } => OpenRequest {
                model: model.clone(),
                title: title.clone().map(Title::Given),
                placement: match task {
                    Some(task) => other(task),
                    None => last().map_or(SandboxPlacement::Remembered, SandboxPlacement::In),
                },
                ..base()
            },
            OpenTarget::Resume { id, task, model } => OpenRequest {
                which: ConversationChoice::Id(id.clone()),
                model: model.clone(),
                placement: task.as_ref().map_or(SandboxPlacement::Remembered, other),
                ..base()
            },
        }
    }

    /// Runs a command to its end, unless Ctrl-C ends it.
    async fn run(&self, verb: Verb, global: Global) -> Result<Exit, CommandFailure> {
        let environment = self.context.environment().clone();
        let context = Context::new(self.context.console, environment, global);
        let mut signals = exit::listen_or_fail()?;
        let _questions = QuestionsUntilSignal::end_with(exit::listen_or_fail()?)?;
        let mut work = crate::dispatch(&context, verb);
        let signal = tokio::select! {
            done = &mut work => return done,
            signal = signals.next() => signal,
        };
        // Most commands hear the signal too, and have something to put in order.
        tokio::select! {
            done = &mut work => done,
            _ = signals.next() => Ok(Exit::Terminated(signal)),
            () = tokio::time::sleep(GRACE) => Ok(Exit::Terminated(signal)),
        }
    }
}

/// Ends the questions of a command with a signal. The asking task waits for the
/// answer and for nothing else, so another task receives the signal.
struct QuestionsUntilSignal {
    ending: JoinHandle<()>,
    _possible: CancelAnswers,
}

impl QuestionsUntilSignal {
    fn end_with(mut signals: Terminations) -> Result<Self, CommandFailure> {
        let possible = CancelAnswers::enable()
            .map_err(|error| CommandFailure::io("prepare for questions", &error))?;
        let ending = tokio::spawn(async move {
            signals.next().await;
            CancelAnswers::now();
        });
        Ok(Self { ending, _possible: possible })
    }
}

impl Drop for QuestionsUntilSignal {
    fn drop(&mut self) {
        self.ending.abort();
    }
}

#[async_trait]
impl ChatHost for ChatProgram {
    async fn open(&self, what: OpenTarget) -> Result<OpenedConversation, ChatError> {
        let request = self.request_for(&what);
        let opened = Box::pin(self.runtime.open(request, Arc::clone(&self.human))).await;
        let vestal_runtime::Opened { conversation, choice, is_resumed, notices } =
            opened.map_err(|error| trouble(&error.into()))?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(choice);
        if what == OpenTarget::First {
            conversation.guard().set_yolo(self.yolo);
        }
        Ok(OpenedConversation { conversation, is_resumed, notices })
    }

    async fn run_command(&self, words: Vec<String>) -> bool {
        let console = self.context.console;
        console::restore_messages();
        let cli = match cli::parse_words(&words) {
            Ok(cli) => cli,
            Err(error) => {
                let exit = console.explain_usage(&error);
                self.draw_again();
                return exit == Exit::Success;
            }
        };
        // The profile and the settings of the chat hold for its commands, too.
        let mut global = self.global.clone();
        global.set.extend(cli.global.set);
        global.profile = cli.global.profile.or(global.profile);
        let result = match cli.verb {
            None | Some(Verb::Chat(_)) => Err(CommandFailure::usage("this is a chat already")),
            // Commands are made for a thread of their own, and wait as they like.
            Some(verb) => block_in_place(|| Handle::current().block_on(self.run(verb, global))),
        };
        let went_well = match result {
            Ok(exit) => exit == Exit::Success,
            Err(failure) => {
                console.explain(&failure);
                false
            }
        };
        console::status::clear();
        self.draw_again();
        went_well
    }

    fn commands(&self) -> Vec<(String, String)> {
        let skills = self.runtime.skills();
        let catalogue = skills.catalogue();
        let about = |name: &String| {
            let skill = catalogue.get(name)?;
            Some(skill.about.description.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let named = |name: String| {
            let about = about(&name).unwrap_or_default();
            (name, about)
        };
        skills.names().into_iter().map(named).collect()
    }

    fn expand_command(&self, name: &str, words: &str) -> Option<Result<String, ChatError>> {
        let skills = self.runtime.skills();
        skills.find(name)?;
        let trouble = |error: vestal_skills::SkillError| ChatError {
            problem: error.to_string(),
            advice: vec![format!("what is wrong with it: /skills check {name}")],
        };
        Some(skills.invocation(name, words).map_err(trouble))
    }

    fn complete_command(&self, words: &[String]) -> Vec<String> {
        cli::complete_words(words)
    }
}

impl ChatProgram {
    /// Sends all messages to the chat from now on.
    pub(super) fn draw_again(&self) {
        let receiver = Arc::clone(&self.receiver);
        console::redirect_messages(move |message| receiver(message));
    }
}

pub(super) fn trouble(failure: &CommandFailure) -> ChatError {
    ChatError {
        problem: failure.message().unwrap_or("the output is closed").to_owned(),
        advice: failure.advice().to_vec(),
    }
}

/// A command typed in a chat, or why it is not one.
pub(super) type ParsedCommand = Result<Invocation, SlashError>;

/// Reads a command; nothing if the text is meant for the model. In a single question an unknown
/// command is taken for text, because nobody could react to a suggestion.
pub(super) fn parse_command(text: &str) -> Option<ParsedCommand> {
    slash::parse(text)
        .filter(|parsed| !matches!(parsed, Err(SlashError::Unknown { .. } | SlashError::Empty)))
}

/// Runs a command that is meant for the program and not for the model.
pub(super) async fn run_command(
    context: &Context,
    parsed: ParsedCommand,
) -> Result<Exit, CommandFailure> {
    let Invocation { command, words, .. } =
        parsed.map_err(|error| CommandFailure::usage(error.to_string()).advise(error.advice()))?;
    match (command.kind, command.name) {
        // Without arguments it prints a short overview.
        (CommandKind::Verb(["kanban"]), _) => kanban::run_words(context, &words).await,
        (CommandKind::Verb(verb), _) => run_verb(context, verb, words).await,
        (_, "help") => help(context, &words),
        (_, "model") => match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["--global" | "-g", name] => {
                run_verb(context, &["model", "set"], vec![(*name).to_owned()]).await
            }
            [] | ["list" | "set" | "setup", ..] => run_verb(context, &["model"], words).await,
            [flag, ..] if flag.starts_with('-') => run_verb(context, &["model"], words).await,
            _ => Err(of_conversation(command.name)),
        },
        (CommandKind::Conversation | CommandKind::Terminal, name) => Err(of_conversation(name)),
    }
}

async fn run_verb(
    context: &Context,
    verb: &[&str],
    words: Vec<String>,
) -> Result<Exit, CommandFailure> {
    let line: Vec<String> = verb.iter().map(|word| (*word).to_owned()).chain(words).collect();
    let parsed = match cli::parse_words(&line) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(context.console.explain_usage(&error)),
    };
    match parsed.verb {
        // A verb may be a chat again, which is why it is not part of this one.
        Some(verb) => Box::pin(crate::dispatch(context, verb)).await,
        None => Err(CommandFailure::usage(format!("{} is not a command", line.join(" ")))),
    }
}

fn of_conversation(name: &str) -> CommandFailure {
    CommandFailure::usage(format!("/{name} is for an open conversation"))
        .advise("to go on with the last one: vestal chat -c")
}

fn help(context: &Context, words: &[String]) -> Result<Exit, CommandFailure> {
    let page = match words.first() {
        None => slash::help(),
        Some(name) => {
            let name = name.trim_start_matches('/');
            match slash::find(name) {
                Some(command) => slash::help_of(command),
                None => return Err(CommandFailure::usage(format!("there is no command /{name}"))),
            }
        }
    };
    context.console.print(page.trim_end())?;
    Ok(Exit::Success)
}
