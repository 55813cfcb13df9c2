//! Slash commands: those of the program that make sense in an editor, and skills.

use std::fmt::Write as _;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use vestal_agent::slash::{
    self, COMMANDS, CommandKind, Invocation, ReasoningRequest, SlashCommand, SlashError,
};
use vestal_agent::{Conversation, ConversationMode, EventSink, Switch};
use vestal_runtime::{SandboxCommand, endpoints};
use vestal_skills::Skills;

use crate::content::PromptContent;
use crate::error::{AcpError, shown};
use crate::protocol::{AvailableCommand, CommandHint};
use crate::session::EditorSession;
use crate::turn::closed;

/// Commands for which an editor has a way of its own, or that only a terminal can carry out.
const ELSEWHERE: &[&str] = &["new", "resume", "branch", "stop", "quit"];

/// What a command led to.
pub(crate) enum SlashOutcome {
    /// It was none: it is for the model.
    NotOne,
    /// Something to show.
    Done(String),
    /// Something to say to the model.
    Prompt(PromptContent),
    /// It was cancelled before it began.
    Cancelled,
}

/// Returns the commands that a client is told of.
pub(crate) fn available(skills: &Skills) -> Vec<AvailableCommand> {
    let is_here = |command: &&SlashCommand| {
        command.kind != CommandKind::Terminal && !ELSEWHERE.contains(&command.name)
    };
    let own = COMMANDS.iter().filter(is_here).map(|command| AvailableCommand {
        name: command.name.to_owned(),
        description: command.summary.to_owned(),
        input: (!command.arguments.is_empty())
            .then(|| CommandHint { hint: command.arguments.to_owned() }),
    });
    let catalogue = skills.catalogue();
    let skills = skills.names().into_iter().map(|name| {
        let about = catalogue.get(&name).map(|skill| skill.about.description.clone());
        AvailableCommand {
            description: about.map_or_else(|| "a skill".to_owned(), shortened),
            input: Some(CommandHint { hint: "what to do with it".to_owned() }),
            name,
        }
    });
    own.chain(skills).collect()
}

fn shortened(about: String) -> String {
    match about.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &about[..end]),
        None => about,
    }
}

/// Reports whether words are for the program, and not for the model.
pub(crate) fn is_one(text: &str) -> bool {
    slash::parse(text.trim()).is_some()
}

/// Carries out a command as it is typed.
pub(crate) async fn carry_out(
    session: &Arc<EditorSession>,
    token: &CancellationToken,
    line: &str,
) -> Result<SlashOutcome, AcpError> {
    let invocation = match slash::parse(line) {
        None => return Ok(SlashOutcome::NotOne),
        Some(Ok(invocation)) => invocation,
        Some(Err(SlashError::Unknown { name, nearest })) => {
            return skill(session, line, &name, nearest);
        }
        Some(Err(error)) => return Err(error.into()),
    };
    let command = invocation.command;
    if command.kind == CommandKind::Terminal || ELSEWHERE.contains(&command.name) {
        let name = command.name;
        return Err(AcpError::params(format!("/{name} is not for editors"))
            .advise("the editor begins, opens and ends conversations itself"));
    }
    let words = invocation.strs();
    let done = match (command.kind, command.name, words.as_slice()) {
        (CommandKind::Verb(verb), ..) => of_verb(session, verb, &invocation).await?,
        (_, "help", []) => help(session),
        (_, "help", [name, ..]) => match slash::find(name.trim_start_matches('/')) {
            Some(command) => code(&slash::help_of(command)),
            None => return Err(AcpError::params(format!("there is no command {}", shown(name)))),
        },
        (_, "yolo", words @ ([] | ["on" | "off"])) => {
            let is_on =
                words.first().map_or_else(|| !session.guard.is_yolo(), |word| *word == "on");
            session.guard.set_yolo(is_on);
            session.show_mode();
            let text = if is_on { "no longer asks for approval" } else { "asks for approval" };
            format!("The agent {text} in this conversation.\n")
        }
        (_, "approvals", words) => approvals(session, &invocation, words)?,
        (_, "usage", _) => usage(session).await?,
        (_, "jobs", []) => verb(session, &["jobs", "-t", &session.task]).await?,
        (_, "jobs", ["kill", job]) => verb(session, &["kill", "-t", &session.task, job]).await?,
        (_, "jobs", ["follow" | "logs", job] | [job]) => {
            verb(session, &["logs", "-t", &session.task, job]).await?
        }
        // All others need the conversation alone.
        _ => {
            let mut held = tokio::select! {
                biased;
                () = token.cancelled() => return Ok(SlashOutcome::Cancelled),
                held = session.conversation.lock() => held,
            };
            let conversation = held.as_mut().ok_or_else(|| closed(session))?;
            return in_conversation(session, conversation, token, &invocation).await;
        }
    };
    Ok(SlashOutcome::Done(done))
}

async fn in_conversation(
    session: &EditorSession,
    conversation: &mut Conversation,
    token: &CancellationToken,
    invocation: &Invocation,
) -> Result<SlashOutcome, AcpError> {
    let words = invocation.strs();
    let done = match (invocation.command.name, words.as_slice()) {
        ("title", _) if invocation.rest.is_empty() => {
            let title = conversation.title().await?;
            title.unwrap_or_else(|| "This conversation has no title yet.".to_owned())
        }
        ("title", _) => conversation.set_title(&invocation.rest).await?,
        ("undo", []) => undo(conversation, 1).await?,
        ("undo", [turns]) => match turns.parse() {
            Ok(turns) if turns > 0 => undo(conversation, turns).await?,
            _ => return Err(usage_of(invocation, "not a number of turns")),
        },
        ("retry", _) => {
            return Ok(match conversation.retry().await? {
                Some(message) => SlashOutcome::Prompt(PromptContent { message }),
                None => SlashOutcome::Done("There is no message to send again.\n".to_owned()),
            });
        }
        ("compress", _) => {
            let control = conversation.control();
            let view = Arc::clone(&session.view);
            let sink = EventSink::new(move |event| view.event(event));
            let done = control.interruptible(token, conversation.compress(&sink)).await;
            let done = done.map_err(|error| AcpError::internal(error.to_string()))?;
            format!(
                "Summarised {} messages; about {} tokens now, {} before.\n",
                done.messages, done.tokens, done.tokens_before
            )
        }
        ("status", _) => status(session, conversation),
        ("model", [] | ["list"]) => {
            let name = model_name(conversation);
            format!("{name}; `vestal model list` lists others, and /model NAME uses one here.\n")
        }
        ("model", [name]) if !name.starts_with('-') => {
            let chain = endpoints(&session.runtime.settings().reload(), Some(name))?;
            conversation.set_chain(chain).await?;
            format!("This conversation now uses {}.\n", model_name(conversation))
        }
        ("model", words) => {
            let words = words.iter().filter(|word| !matches!(**word, "--global" | "-g"));
            let words: Vec<&str> = ["model", "set"].into_iter().chain(words.copied()).collect();
            verb(session, &words).await?
        }
        ("reasoning", words) => {
            let request = slash::read_reasoning(words, conversation.reasoning());
            match request.map_err(|problem| usage_of(invocation, &problem))? {
                ReasoningRequest::Show => {}
                ReasoningRequest::Configured => conversation.set_reasoning(None).await?,
                ReasoningRequest::Set(options) => conversation.set_reasoning(Some(options)).await?,
            }
            let now = slash::describe_reasoning(conversation.reasoning());
            format!("How much the model thinks: {now}.\n")
        }
        ("plan", words) => {
            let mode = match (words, conversation.mode()) {
                (["off"], _) | ([], ConversationMode::Plan) => ConversationMode::Work,
                _ => ConversationMode::Plan,
            };
            conversation.set_mode(mode).await?;
            session.show_mode();
            if !matches!(words, [] | ["on" | "off"]) {
                return Ok(SlashOutcome::Prompt(PromptContent::text(invocation.rest.clone())));
            }
            let is_on = if mode == ConversationMode::Plan { "on" } else { "off" };
            format!("Plan mode is {is_on}: {}.\n", mode.about())
        }
        ("tools", [] | ["list"]) => {
            let tools = conversation.tools();
            let on = tools.iter().filter(|tool| tool.is_on).map(|tool| tool.name.as_str());
            code(&on.collect::<Vec<_>>().join("\n"))
        }
        ("tools", ["enable" | "on", names @ ..]) if !names.is_empty() => {
            switch(conversation, names, Switch::On).await?
        }
        ("tools", ["disable" | "off", names @ ..]) if !names.is_empty() => {
            switch(conversation, names, Switch::Off).await?
        }
        ("sandbox", words) => sandbox(session, conversation, words).await?,
        _ => return Err(usage_of(invocation, "unknown arguments")),
    };
    Ok(SlashOutcome::Done(done))
}

fn usage_of(invocation: &Invocation, problem: &str) -> AcpError {
    AcpError::params(format!("{problem}; usage: {}", invocation.command.usage()))
}

/// Returns a text as it stands.
fn code(text: &str) -> String {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    format!("```\n{text}{newline}```\n")
}

/// A name that is no command may be a skill's.
fn skill(
    session: &EditorSession,
    line: &str,
    name: &str,
    nearest: Option<&str>,
) -> Result<SlashOutcome, AcpError> {
    let skills = session.runtime.skills();
    if skills.find(name).is_some() {
        let words = line.trim_start_matches('/').strip_prefix(name).unwrap_or_default();
        let message = skills.invocation(name, words.trim());
        let message = message.map_err(|error| AcpError::internal(error.to_string()))?;
        return Ok(SlashOutcome::Prompt(PromptContent::text(message)));
    }
    let error = AcpError::params(format!("there is no command /{}", shown(name)));
    Err(match nearest {
        Some(meant) => error.advise(format!("did you mean /{meant}?")),
        None => error.advise("/help lists them; // begins words for the model"),
    })
}

fn help(session: &EditorSession) -> String {
    let mut text = String::new();
    for command in available(session.runtime.skills()) {
        let hint = command.input.map(|input| format!(" {}", input.hint)).unwrap_or_default();
        // Writing to a string cannot fail.
        writeln!(text, "/{}{hint}: {}", command.name, command.description).ok();
    }
    code(&text)
}

fn model_name(conversation: &Conversation) -> String {
    let model = conversation.model();
    model.map_or_else(|| "no model".to_owned(), |it| format!("{}:{}", it.name, it.model))
}

fn status(session: &EditorSession, conversation: &Conversation) -> String {
    let context = conversation.context_used();
    let of = context.window.map(|window| format!(" of {window}")).unwrap_or_default();
    let approvals =
        if session.guard.is_yolo() { "not asked for" } else { "asked before what is dangerous" };
    code(&format!(
        "conversation  {}\nmodel         {}\ncontext       about {}{of} tokens\nsandbox       {}\napprovals     {approvals}\n",
        session.id,
        model_name(conversation),
        context.tokens,
        session.task,
    ))
}

async fn usage(session: &EditorSession) -> Result<String, AcpError> {
    let used = session.runtime.agent().usage(&session.stored).await?;
    let mut text = String::new();
    for model in &used.own {
        let usage = &model.totals.usage;
        // Writing to a string cannot fail.
        writeln!(
            text,
            "{}: {} calls, {} tokens in, {} out",
            model.model, model.totals.calls, usage.input, usage.output
        )
        .ok();
    }
    if text.is_empty() {
        text.push_str("no model has answered in this conversation yet\n");
    }
    Ok(code(&text))
}

async fn undo(conversation: &mut Conversation, turns: u32) -> Result<String, AcpError> {
    let undone = conversation.undo(turns).await?;
    Ok(format!(
        "Took back {} turns ({} messages); the editor still shows them. Changes in the sandbox remain.\n",
        undone.turns, undone.messages
    ))
}

async fn switch(
    conversation: &mut Conversation,
    names: &[&str],
    switch: Switch,
) -> Result<String, AcpError> {
    let mut changed = Vec::new();
    for name in names {
        let done = conversation.switch_tool(name, switch).await;
        changed.extend(done.map_err(|error| AcpError::params(error.to_string()))?);
    }
    let how = if switch == Switch::On { "Enabled" } else { "Disabled" };
    Ok(format!("{how}: {}\n", changed.join(", ")))
}

fn approvals(
    session: &EditorSession,
    invocation: &Invocation,
    words: &[&str],
) -> Result<String, AcpError> {
    let given = session.guard.approvals();
    let redactor = session.runtime.agent().redactor();
    match words {
        [] if given.is_empty() => Ok("Nothing is approved in this conversation.\n".to_owned()),
        [] => {
            let lines = (1..).zip(&given);
            let lines =
                lines.map(|(at, given): (usize, _)| format!("{at}  {}\n", redactor.redact(given)));
            Ok(code(&lines.collect::<String>()))
        }
        ["forget", which] => {
            let meant: Vec<&String> = match which.parse::<usize>() {
                Ok(number) => given.iter().skip(number.saturating_sub(1)).take(1).collect(),
                Err(_) if *which == "all" => given.iter().collect(),
                Err(_) => return Err(usage_of(invocation, "not a number")),
            };
            let gone = meant.iter().filter(|one| session.guard.withdraw(one)).count();
            Ok(format!("{gone} approvals withdrawn.\n"))
        }
        _ => Err(usage_of(invocation, "unknown arguments")),
    }
}

/// Shows or changes the sandbox. No turn runs meanwhile, and the model is told of it.
async fn sandbox(
    session: &EditorSession,
    conversation: &mut Conversation,
    words: &[&str],
) -> Result<String, AcpError> {
    let command = SandboxCommand::parse(words, &session.task)
        .map_err(|error| AcpError::params(error.to_string()).advise(error.advice()))?;
    let verb_of = match command {
        SandboxCommand::Show => return verb(session, &["inspect", "-t", &session.task]).await,
        SandboxCommand::Switch(to) => {
            return Err(AcpError::params("a session of an editor stays in its sandbox")
                .advise(format!("have the editor start `vestal acp -t {to}`")));
        }
        SandboxCommand::Run(verb) => verb,
    };
    let words: Vec<&str> = verb_of.words.iter().map(String::as_str).collect();
    let mut done = verb(session, &words).await?;
    if let Some(hint) = verb_of.hint {
        done.extend([format!("{hint}\n")]);
    }
    if let Some(remark) = verb_of.remark
        && !conversation.messages().is_empty()
    {
        conversation.add_note(remark).await?;
    }
    Ok(done)
}

/// Runs a verb of the command line; without words, its listing.
async fn of_verb(
    session: &EditorSession,
    words: &[&str],
    invocation: &Invocation,
) -> Result<String, AcpError> {
    let listing: &[&str] = match (invocation.words.is_empty(), invocation.command.name) {
        (true, "sessions" | "kanban" | "profile" | "skills" | "mcp") => &["list"],
        (true, "config" | "memory") => &["show"],
        _ => &[],
    };
    let typed = invocation.strs();
    let words: Vec<&str> = words.iter().chain(listing).copied().chain(typed).collect();
    verb(session, &words).await
}

async fn verb(session: &EditorSession, words: &[&str]) -> Result<String, AcpError> {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    match session.runtime.verbs().run(words).await {
        Ok(done) if done.is_success => Ok(code(&done.text)),
        Ok(done) => Err(AcpError::internal(done.text.trim())),
        Err(reason) => Err(AcpError::internal(reason)),
    }
}
