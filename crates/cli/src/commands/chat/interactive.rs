//! The chat on a terminal.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc::unbounded_channel;
use vestal_agent::settings::EndpointError;
use vestal_chat::{ChatExit, ChatParts, HostMessage};
use vestal_config::{Environment, Settings};
use vestal_runtime::{ConversationChoice, OpenRequest, SandboxPlacement, Termination};
use vestal_sandbox::backend::HostDirectories;
use vestal_sandbox::keys;
use vestal_tui::{Colour, format};

use super::directories::{Directories, is_project};
use super::host::ChatProgram;
use super::{ChatArgs, placement, toolsets};
use crate::agent;
use crate::cli::SandboxFlags;
use crate::commands::model;
use crate::console::{self, TerminalMessage};
use crate::context::{Context, declared_backend};
use crate::error::CommandFailure;
use crate::exit::{self, Exit};

/// Reports whether an interactive chat is possible: input and output are terminals.
pub(crate) fn is_possible(environment: &Environment) -> bool {
    !is_dumb(environment)
        && io::stdin().is_terminal()
        && io::stdout().is_terminal()
        && io::stderr().is_terminal()
}

/// Reports whether the terminal cannot move its cursor, and so cannot be drawn on.
pub(super) fn is_dumb(environment: &Environment) -> bool {
    environment.get("TERM").is_some_and(|term| term == "dumb")
}

pub(super) async fn run(context: &Context, args: &ChatArgs) -> Result<Exit, CommandFailure> {
    let Some(settings) = settings_with_model(context, args).await? else {
        return Ok(Exit::No);
    };
    let mut request = args.request(context)?;
    if let Some(placement) = offered_mount(context, &settings, &request)? {
        request.placement = placement;
    }
    let wanted = toolsets(&settings, args.toolsets.as_deref())?;
    let runtime = agent::build(context, &settings, &wanted).await?;
    let agent = runtime.agent().clone();
    let (human, questions) = vestal_chat::question_channel();
    let (sender, outside) = unbounded_channel();
    let receiver = Arc::new(move |message| {
        let event = match message {
            TerminalMessage::Line(line) => HostMessage::Line(format::without_escapes(&line)),
            TerminalMessage::Status(what) => HostMessage::Status(what),
        };
        // A chat that has ended shows nothing any more.
        drop(sender.send(event));
    });
    let program = Arc::new(ChatProgram {
        context: context.again(),
        global: context.global().clone(),
        runtime: runtime.clone(),
        human,
        request,
        yolo: args.yolo,
        receiver,
        last: Mutex::new(None),
    });
    let first = super::first_message(args)?;
    program.draw_again();
    let parts = ChatParts {
        host: program.clone(),
        agent: agent.clone(),
        settings: Arc::clone(&settings),
        colour: if context.console.is_coloured() { Colour::On } else { Colour::Off },
        history: settings.home().dir().join("chat_history"),
        questions,
        outside,
        first,
        cwd: std::env::current_dir().ok(),
    };
    let chat = vestal_chat::run(parts, exit::listen);
    let left = Box::pin(chat).await;
    vestal_tui::terminal::restore();
    console::restore_messages();
    match &left {
        Ok(ChatExit::Quit) => context.finish(agent.engine()).await,
        _ => context.close(agent.engine()).await,
    }
    runtime.close().await;
    match left {
        Ok(ChatExit::Quit) => Ok(Exit::Success),
        Ok(ChatExit::Signal(signal)) => Ok(Exit::Terminated(signal)),
        Ok(ChatExit::Closed) => Ok(Exit::Terminated(Termination::HangUp)),
        Err(trouble) => {
            let failure = CommandFailure::new(trouble.problem);
            Err(trouble.advice.into_iter().fold(failure, CommandFailure::advise))
        }
    }
}

/// Returns the settings once they choose a model. A person who has not
/// chosen one yet is asked; nothing if there was no answer.
async fn settings_with_model(
    context: &Context,
    args: &ChatArgs,
) -> Result<Option<Arc<Settings>>, CommandFailure> {
    let settings = context.settings()?;
    let found = vestal_agent::settings::endpoints(&settings, args.model.as_deref());
    let Err(error) = found else {
        return Ok(Some(Arc::new(settings)));
    };
    let may_be_asked = matches!(
        error,
        EndpointError::NoModel | EndpointError::NoProvider { .. } | EndpointError::NoKey { .. }
    );
    if !may_be_asked || args.model.is_some() {
        return Err(CommandFailure::no_endpoint(error, settings.home().profile()));
    }
    context.console.note(&format!("{error}; a few questions, and the chat begins"));
    if !Box::pin(model::set_up(context)).await? {
        return Ok(None);
    }
    let settings = context.settings()?;
    // Something besides the files may still be wrong.
    vestal_runtime::endpoints(&settings, None)?;
    Ok(Some(Arc::new(settings)))
}

/// Offers to let the agent work on the project that the chat is begun in. The
/// answer is remembered; returns the place where it is yes.
fn offered_mount(
    context: &Context,
    settings: &Settings,
    request: &OpenRequest,
) -> Result<Option<SandboxPlacement>, CommandFailure> {
    project_mount(context, settings, request, |directories, here| {
        let question = format!(
            "Shall the agent work on {}? It becomes /workspace of a sandbox of its own. [y/n]",
            here.display()
        );
        let mount = ask_yes_or_no(context, &question)?;
        if let Err(error) = directories.keep(here, mount) {
            context.console.warn(&format!("the answer is not remembered: {error}"));
        }
        Some(mount)
    })
}

/// Returns the project that the question is asked in as the place of work, if
/// somebody has agreed to that before. One that nobody was asked about is reported.
pub(super) fn agreed_mount(
    context: &Context,
    settings: &Settings,
    request: &OpenRequest,
) -> Result<Option<SandboxPlacement>, CommandFailure> {
    project_mount(context, settings, request, |_, here| {
        context.console.note(&format!(
            "the agent does not see {}; --mount-cwd lets it work there, and `vestal chat` asks once",
            here.display()
        ));
        None
    })
}

fn project_mount(
    context: &Context,
    settings: &Settings,
    request: &OpenRequest,
    unanswered: impl FnOnce(&Directories, &Path) -> Option<bool>,
) -> Result<Option<SandboxPlacement>, CommandFailure> {
    if !matches!(
        (&request.which, &request.placement),
        (ConversationChoice::New, SandboxPlacement::Remembered)
    ) {
        return Ok(None);
    }
    let named = settings.get(&keys::BACKEND)?.value.named();
    let declared = named.and_then(declared_backend);
    let sees_host = declared.is_some_and(|it| it.host_directories == HostDirectories::All);
    let is_settled = sees_host || settings.get(&keys::DOCKER_MOUNT_CWD_TO_WORKSPACE)?.value;
    if is_settled {
        return Ok(None);
    }
    let Ok(here) = std::env::current_dir() else { return Ok(None) };
    let home = context.environment().non_empty("HOME").map(PathBuf::from);
    if !is_project(&here, home.as_deref()) {
        return Ok(None);
    }
    let directories = Directories::of(&settings.home().dir());
    let answer = directories.answer(&here).or_else(|| unanswered(&directories, &here));
    if answer != Some(true) {
        return Ok(None);
    }
    let wanted = SandboxFlags { backend: None, image: None, mount_cwd: true };
    placement(context, None, &wanted).map(Some)
}

/// Returns the answer; none when there is none.
fn ask_yes_or_no(context: &Context, question: &str) -> Option<bool> {
    loop {
        let answer = context.console.ask_for(question)?;
        match answer.to_ascii_lowercase().as_str() {
            "y" | "yes" => return Some(true),
            "n" | "no" => return Some(false),
            _ => {}
        }
    }
}
