//! Slash commands of a session, with text as their result.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use vestal_agent::slash::{self, CommandKind, Invocation, ReasoningRequest, SlashError};
use vestal_agent::{ConversationMode, Switch};
use vestal_model::Part;
use vestal_runtime::{SandboxChoice, SandboxCommand};
use vestal_sandbox::{Overrides, TaskName};

use crate::error::{self, RpcError};
use crate::methods::{
    CreateParams, MethodCall, branch_session, compress_session, create_session_in, jobs_text,
    kill_job, resume_session, set_model, set_title, status_text, stop_jobs, submit_prompt,
    switch_tools, undo_turns, usage_text, usage_totals,
};
use crate::session::{Prompt, Session};

/// What a command led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum SlashOutput {
    /// Something to show.
    Output {
        /// The text.
        output: String,
    },
    /// Something to say to the model: send it with `prompt.submit`.
    Prompt {
        /// The text.
        message: String,
    },
    /// A session to go on in.
    Session {
        /// Its id among the live sessions; `session.activate` watches it.
        session_id: String,
        /// Something to show.
        output: String,
    },
}

fn output(text: impl Into<String>) -> SlashOutput {
    SlashOutput::Output { output: text.into() }
}

fn in_session(session: &Session, text: impl Into<String>) -> SlashOutput {
    SlashOutput::Session { session_id: session.id.to_string(), output: text.into() }
}

/// Carries out a command as it is typed.
pub(crate) async fn carry_out(
    call: &MethodCall,
    session: &Arc<Session>,
    line: &str,
) -> Result<SlashOutput, RpcError> {
    let invocation = match slash::parse(line) {
        Some(Ok(invocation)) => invocation,
        Some(Err(SlashError::Unknown { name, nearest })) => {
            let words = line.trim_start_matches('/').trim_start_matches(name.as_str());
            return skill(call, &name, words, nearest);
        }
        Some(Err(error)) => {
            let code = error::BAD_VALUE;
            return Err(RpcError::new(code, error.to_string()).advise(error.advice()));
        }
        None => return Err(RpcError::new(error::NOT_FOUND, "this is not a command")),
    };
    let command = invocation.command;
    let words = invocation.strs();
    match (command.kind, command.name, words.as_slice()) {
        (CommandKind::Verb(verb), ..) => run_verb(call, verb, &invocation).await,
        (CommandKind::Terminal, name, _) => {
            let message = format!("/{name} is of use at a terminal only");
            Err(RpcError::new(error::NOT_FOUND, message).advise("session.close ends a session"))
        }
        (_, "new", _) => {
            let title = Some(invocation.rest.clone()).filter(|title| !title.is_empty());
            let cwd = session.facts().cwd.map(Into::into);
            let new = CreateParams { title, ..CreateParams::default() };
            let new = create_session_in(call, cwd, new)?;
            Ok(in_session(&new, "a new conversation in the same sandbox\n"))
        }
        (_, "resume", []) => Err(usage(&invocation, "which conversation?")),
        (_, "resume", _) => {
            let resumed = resume_session(call, &invocation.rest, false).await?;
            Ok(in_session(&resumed, ""))
        }
        (_, "branch", _) => {
            let (branch, from) = branch_session(call, session, Some(&invocation.rest)).await?;
            Ok(in_session(&branch, format!("a branch of {from}\n")))
        }
        (_, "title", _) => {
            let title = Some(invocation.rest.clone()).filter(|title| !title.is_empty());
            let title = set_title(session, title).await?.title;
            let title = title.unwrap_or_else(|| "this conversation has no title yet".to_owned());
            Ok(output(format!("{title}\n")))
        }
        (_, "undo", []) => undo(session, 1).await,
        (_, "undo", [turns]) => match turns.parse() {
            Ok(turns) if turns > 0 => undo(session, turns).await,
            _ => Err(usage(&invocation, "not a number of turns")),
        },
        (_, "retry", _) => retry(session).await,
        (_, "compress", _) => {
            let done = compress_session(session).await?;
            Ok(output(format!(
                "summarised {} messages; about {} tokens now, {} before\n",
                done.removed, done.after_tokens, done.before_tokens
            )))
        }
        (_, "status", _) => Ok(output(status_text(session).await?)),
        (_, "usage", _) => Ok(output(usage_text(&usage_totals(session).await?))),
        (_, "stop", _) => stop(session).await,
        (_, "model", [] | ["list"]) => {
            let facts = session.facts();
            let name = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
            let (provider, model) = (name(facts.provider), name(facts.model));
            Ok(output(format!("{provider}:{model}; model.options lists others\n")))
        }
        (_, "model", [name]) if !name.starts_with('-') => {
            let (name, warning) = set_model(session, name).await?;
            let warning = warning.map(|warning| format!("{warning}\n")).unwrap_or_default();
            Ok(output(format!("this conversation now uses {name}\n{warning}")))
        }
        (_, "model", words) => {
            let words = words.iter().filter(|word| !matches!(**word, "--global" | "-g"));
            let words = ["model", "set"].into_iter().chain(words.copied()).map(str::to_owned);
            verb(call, words.collect()).await
        }
        (_, "reasoning", words) => reasoning(session, &invocation, words).await,
        (_, "plan", words) => plan(session, &invocation, words).await,
        (_, "tools", [] | ["list"]) => Ok(output(session.facts().tools.join("\n") + "\n")),
        (_, "tools", ["enable" | "on", names @ ..]) if !names.is_empty() => {
            tools(call, session, names, Switch::On).await
        }
        (_, "tools", ["disable" | "off", names @ ..]) if !names.is_empty() => {
            tools(call, session, names, Switch::Off).await
        }
        (_, "yolo", words @ ([] | ["on" | "off"])) => {
            let on = words.first().map_or_else(|| !session.is_yolo(), |word| *word == "on");
            session.set_yolo(on);
            let text = if on { "no longer asks for approval" } else { "asks for approval" };
            Ok(output(format!("the agent {text} in this conversation\n")))
        }
        (_, "approvals", words) => approvals(session, &invocation, words),
        (_, "sandbox", words) => sandbox(call, session, words).await,
        (_, "jobs", ["kill", job]) => {
            Ok(output(format!("{} ended\n", kill_job(session, job).await?)))
        }
        (_, "jobs", []) => Ok(output(jobs_text(session).await?)),
        (_, "jobs", [flag]) if flag.starts_with('-') => {
            verb(call, words_of(&["jobs", "-t", &task_of(session), flag])).await
        }
        // What it has printed so far: nobody here could leave what follows it.
        (_, "jobs", ["follow" | "logs", job] | [job]) => {
            verb(call, words_of(&["logs", "-t", &task_of(session), job])).await
        }
        (_, "help", []) => Ok(output(slash::help())),
        (_, "help", [name, ..]) => match slash::find(name.trim_start_matches('/')) {
            Some(command) => Ok(output(slash::help_of(command))),
            None => Err(RpcError::new(error::NOT_FOUND, format!("there is no command {name}"))),
        },
        _ => Err(usage(&invocation, "unknown arguments")),
    }
}

fn usage(invocation: &Invocation, problem: &str) -> RpcError {
    let usage = invocation.command.usage();
    RpcError::new(error::BAD_VALUE, format!("{problem}; usage: {usage}"))
}

/// A name that is not a command may be a skill's.
fn skill(
    call: &MethodCall,
    name: &str,
    words: &str,
    nearest: Option<&str>,
) -> Result<SlashOutput, RpcError> {
    let skills = call.server.runtime().skills();
    if skills.find(name).is_some() {
        let message = skills.invocation(name, words.trim());
        let message = message.map_err(|error| RpcError::new(error::HOST, error.to_string()))?;
        return Ok(SlashOutput::Prompt { message });
    }
    let name = crate::protocol::shown(name);
    let error = RpcError::new(error::NOT_FOUND, format!("there is no command /{name}"));
    Err(match nearest {
        Some(meant) => error.advise(format!("did you mean /{meant}?")),
        None => error.advise("commands.catalog lists them"),
    })
}

async fn undo(session: &Arc<Session>, turns: u32) -> Result<SlashOutput, RpcError> {
    let undone = undo_turns(session, turns).await?;
    Ok(output(format!(
        "took back {} turns ({} messages); changes in the sandbox remain\n",
        undone.turns, undone.messages
    )))
}

/// Shows or chooses how much the model thinks.
async fn reasoning(
    session: &Arc<Session>,
    invocation: &Invocation,
    words: &[&str],
) -> Result<SlashOutput, RpcError> {
    let mut exclusive = session.exclusive("changing how much the model thinks").await?;
    let conversation = exclusive.opened().await?;
    let request = slash::read_reasoning(words, conversation.reasoning());
    let wanted = match request.map_err(|problem| usage(invocation, &problem))? {
        ReasoningRequest::Show => {
            let now = slash::describe_reasoning(conversation.reasoning());
            return Ok(output(format!("{now}\n")));
        }
        ReasoningRequest::Configured => None,
        ReasoningRequest::Set(options) => Some(options),
    };
    conversation.set_reasoning(wanted).await?;
    let now = slash::describe_reasoning(conversation.reasoning());
    Ok(output(format!("reasoning from the next request on: {now}\n")))
}

/// Turns plan mode on or off, also while a turn runs, or on with something to plan.
async fn plan(
    session: &Arc<Session>,
    invocation: &Invocation,
    words: &[&str],
) -> Result<SlashOutput, RpcError> {
    let running = session.handles().filter(|_| session.is_running());
    let wanted = |now: ConversationMode| match (words, now) {
        (["off"], _) | ([], ConversationMode::Plan) => ConversationMode::Work,
        _ => ConversationMode::Plan,
    };
    let mode = if let Some(handles) = running {
        let mode = wanted(handles.mode.get());
        handles.mode.set(mode);
        mode
    } else {
        let mut exclusive = session.exclusive("switching the mode").await?;
        let conversation = exclusive.opened().await?;
        let mode = wanted(conversation.mode());
        conversation.set_mode(mode).await?;
        mode
    };
    match words {
        [] | ["on" | "off"] => {
            let is_on = if mode == ConversationMode::Plan { "on" } else { "off" };
            Ok(output(format!("plan mode is {is_on}: {}\n", mode.about())))
        }
        _ => Ok(SlashOutput::Prompt { message: invocation.rest.clone() }),
    }
}

/// Takes back the last turn, and says again what began it, pictures and all.
async fn retry(session: &Arc<Session>) -> Result<SlashOutput, RpcError> {
    let Some(message) = undo_turns(session, 1).await?.first_message else {
        return Ok(output("there is no message to send again\n"));
    };
    let text = message.text();
    let images = message.parts.into_iter().filter_map(|part| match part {
        Part::Image(image) => Some(image),
        Part::Text { .. } => None,
    });
    submit_prompt(session, Prompt { text, images: images.collect(), undo: 0 })?;
    Ok(output("sent again\n"))
}

fn words_of(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns the task whose sandbox a session works in.
fn task_of(session: &Session) -> String {
    session.facts().task.unwrap_or_else(|| TaskName::default_task().to_string())
}

/// Shows or changes the sandbox of a session. No turn runs meanwhile, and the model is told what was
/// done to its sandbox.
async fn sandbox(
    call: &MethodCall,
    session: &Arc<Session>,
    words: &[&str],
) -> Result<SlashOutput, RpcError> {
    let task = task_of(session);
    let command = SandboxCommand::parse(words, &task).map_err(|error| {
        RpcError::new(error::BAD_VALUE, error.to_string()).advise(error.advice())
    })?;
    let verb_of = match command {
        SandboxCommand::Show => return verb(call, words_of(&["inspect", "-t", &task])).await,
        SandboxCommand::Switch(to) => return switch_sandbox(session, to).await,
        SandboxCommand::Run(verb) => verb,
    };
    let mut exclusive = session.exclusive("changing the sandbox").await?;
    let mut done = verb(call, verb_of.words).await?;
    if let (SlashOutput::Output { output }, Some(hint)) = (&mut done, verb_of.hint) {
        output.push_str(&hint);
        output.push('\n');
    }
    if let (Some(remark), Some(conversation)) = (verb_of.remark, exclusive.conversation())
        && !conversation.messages().is_empty()
    {
        conversation.add_note(remark).await?;
    }
    Ok(done)
}

/// Has a session go on in the sandbox of another task.
async fn switch_sandbox(session: &Arc<Session>, to: TaskName) -> Result<SlashOutput, RpcError> {
    let mut exclusive = session.exclusive("changing the sandbox").await?;
    let from = match exclusive.conversation() {
        Some(conversation) => conversation.sandbox().task().clone(),
        None => TaskName::default_task(),
    };
    if from == to {
        return Ok(output(format!("already in the sandbox of {to}\n")));
    }
    exclusive.move_to(SandboxChoice::new(to.clone(), Overrides::default())).await?;
    match exclusive.conversation() {
        Some(conversation) => {
            if !conversation.messages().is_empty() {
                conversation.add_note(&SandboxCommand::switch_message(&from, &to)).await?;
            }
        }
        None => session.update_facts(|facts| facts.task = Some(to.to_string())),
    }
    Ok(output(format!(
        "the agent now works in the sandbox of {to}; to go back: /sandbox switch {from}\n"
    )))
}

async fn stop(session: &Arc<Session>) -> Result<SlashOutput, RpcError> {
    if session.is_running() {
        session.interrupt();
        return Ok(output("interrupted\n"));
    }
    let killed = stop_jobs(session).await?;
    Ok(output(format!("{} background jobs ended\n", killed.len())))
}

async fn tools(
    call: &MethodCall,
    session: &Arc<Session>,
    names: &[&str],
    switch: Switch,
) -> Result<SlashOutput, RpcError> {
    let changed = switch_tools(call, session, names, switch).await?;
    let how = if switch == Switch::On { "enabled" } else { "disabled" };
    Ok(output(format!("{how}: {}\n", changed.join(", "))))
}

fn approvals(
    session: &Session,
    invocation: &Invocation,
    words: &[&str],
) -> Result<SlashOutput, RpcError> {
    let guard = session.handles().map(|handles| handles.guard);
    let given = guard.as_ref().map(|guard| guard.approvals()).unwrap_or_default();
    let redactor = session.runtime.agent().redactor();
    match words {
        [] if given.is_empty() => Ok(output("nothing is approved in this conversation\n")),
        [] => {
            let lines = (1..).zip(&given);
            let lines =
                lines.map(|(at, given): (usize, _)| format!("{at}  {}\n", redactor.redact(given)));
            Ok(output(lines.collect::<String>()))
        }
        ["forget", which] => {
            let meant: Vec<&String> = match which.parse::<usize>() {
                Ok(number) => given.iter().skip(number.saturating_sub(1)).take(1).collect(),
                Err(_) if *which == "all" => given.iter().collect(),
                Err(_) => return Err(usage(invocation, "not a number")),
            };
            let gone = guard.map_or(0, |guard| {
                meant.iter().filter(|approval| guard.withdraw(approval)).count()
            });
            Ok(output(format!("{gone} approvals withdrawn\n")))
        }
        _ => Err(usage(invocation, "unknown arguments")),
    }
}

/// Runs a verb of the command line; without words, its listing.
async fn run_verb(
    call: &MethodCall,
    words: &[&str],
    invocation: &Invocation,
) -> Result<SlashOutput, RpcError> {
    let listing: &[&str] = match (invocation.words.is_empty(), invocation.command.name) {
        (true, "sessions" | "kanban" | "profile" | "skills" | "mcp") => &["list"],
        (true, "config" | "memory") => &["show"],
        _ => &[],
    };
    let words = words.iter().chain(listing).map(|word| (*word).to_owned());
    verb(call, words.chain(invocation.words.iter().cloned()).collect()).await
}

async fn verb(call: &MethodCall, words: Vec<String>) -> Result<SlashOutput, RpcError> {
    call.server.clients().check_verb(&words)?;
    match call.server.runtime().verbs().run(words).await {
        Ok(done) if done.is_success => Ok(output(done.text)),
        Ok(done) => Err(RpcError::new(error::HOST, done.text.trim().to_owned())),
        Err(reason) => Err(RpcError::new(error::HOST, reason)),
    }
}
