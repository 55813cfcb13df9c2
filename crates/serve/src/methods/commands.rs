//! Slash commands: listed, resolved, carried out, completed; and paths completed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_agent::EventSink;
use vestal_agent::settings::known_models;
use vestal_agent::slash::{self, ArgumentKind, COMMANDS, CommandKind, Completing, SlashCommand};
use vestal_conversations::ConversationFilter;

use super::{MethodCall, Nothing};
use crate::error::{self, RpcError};
use crate::session::Session;
use crate::slash::{SlashOutput, carry_out};

/// Completions of each kind.
const MOST: usize = 50;

/// How long completions may take: typing must not wait for a sandbox that does not answer.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(2);

/// A command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct CommandView {
    /// Its name, without the `/`.
    canonical: String,
    /// Other names it goes by.
    aliases: Vec<String>,
    /// As it is typed: `/undo [N]`.
    usage: String,
    /// What it does, in a line.
    description: String,
    /// What it is about.
    category: String,
    /// Whether it is of use at a terminal only.
    terminal_only: bool,
}

impl From<&SlashCommand> for CommandView {
    fn from(command: &SlashCommand) -> Self {
        Self {
            canonical: command.name.to_owned(),
            aliases: command.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            usage: command.usage(),
            description: command.summary.to_owned(),
            category: command.group.heading().to_owned(),
            terminal_only: command.kind == CommandKind::Terminal,
        }
    }
}

/// Commands and skills.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CatalogResult {
    /// The commands, in the order of the help.
    commands: Vec<CommandView>,
    /// Names of skills, which are called like commands.
    skills: Vec<String>,
}

pub(super) async fn catalog(call: MethodCall, _: Nothing) -> Result<CatalogResult, RpcError> {
    let commands = COMMANDS.iter().map(Into::into).collect();
    Ok(CatalogResult { commands, skills: call.server.runtime().skills().names() })
}

/// A name of a command.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ResolveParams {
    /// With or without the `/`.
    name: String,
}

pub(super) async fn resolve(_: MethodCall, params: ResolveParams) -> Result<CommandView, RpcError> {
    let name = params.name.trim_start_matches('/');
    slash::find(name).map(Into::into).ok_or_else(|| {
        let message = format!("there is no command /{}", crate::protocol::shown(name));
        let error = RpcError::new(error::NOT_FOUND, message);
        match slash::nearest(name, COMMANDS.iter().flat_map(SlashCommand::names)) {
            Some(meant) => error.advise(format!("did you mean /{meant}?")),
            None => error,
        }
    })
}

/// A command with its argument.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct DispatchParams {
    /// The live session.
    session_id: String,
    /// The command, with or without the `/`.
    name: String,
    /// What follows it.
    #[serde(default)]
    arg: String,
}

pub(super) async fn dispatch(
    call: MethodCall,
    params: DispatchParams,
) -> Result<SlashOutput, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let name = params.name.trim().trim_start_matches('/');
    let line = format!("/{name} {}", params.arg);
    Box::pin(carry_out(&call, &session, line.trim_end())).await
}

/// A command as it is typed.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SlashExecParams {
    /// The live session.
    session_id: String,
    /// With or without the `/`.
    command: String,
}

pub(super) async fn exec(
    call: MethodCall,
    params: SlashExecParams,
) -> Result<SlashOutput, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let line = format!("/{}", params.command.trim().trim_start_matches('/'));
    Box::pin(carry_out(&call, &session, &line)).await
}

/// Something that could be typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct CompletionItem {
    /// What is put into the text.
    text: String,
    /// How it is listed.
    display: String,
    /// What it is, in a line.
    meta: String,
}

/// What could be typed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CompleteResult {
    /// The best first.
    items: Vec<CompletionItem>,
    /// The byte of the text from which on it gives way to what is chosen.
    replace_from: usize,
}

/// A command that is being typed.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct CompleteSlashParams {
    /// The text up to the cursor.
    text: String,
    /// The live session, whose jobs and tools are offered.
    #[serde(default)]
    session_id: Option<String>,
}

pub(super) async fn complete_slash(
    call: MethodCall,
    params: CompleteSlashParams,
) -> Result<CompleteResult, RpcError> {
    let session = match &params.session_id {
        Some(id) => Some(call.server.session(id)?),
        None => None,
    };
    let Some(completing) = slash::complete(&params.text, params.text.len()) else {
        return Ok(CompleteResult { items: Vec::new(), replace_from: params.text.len() });
    };
    let Completing { replaces, candidates, wanted, typed, verb } = completing;
    let item = |text: String, meta: String| CompletionItem {
        display: text.trim_end().to_owned(),
        text,
        meta,
    };
    let mut items: Vec<CompletionItem> =
        candidates.into_iter().map(|candidate| item(candidate.text, candidate.about)).collect();
    if let Some(name) = typed.strip_prefix('/').filter(|_| wanted.is_none()) {
        let skills = call.server.runtime().skills().names();
        let skills = skills.into_iter().filter(|skill| skill.starts_with(name));
        items.extend(skills.map(|skill| item(format!("/{skill} "), "a skill".to_owned())));
    }
    if let Some(wanted) = wanted {
        let names = names(&call, session.as_ref(), wanted, &typed, &verb);
        let names = tokio::time::timeout(COMPLETION_TIMEOUT, names).await.unwrap_or_default();
        let names = names.into_iter().filter(|(name, _)| name.starts_with(&typed)).take(MOST);
        items.extend(names.map(|(name, meta)| item(format!("{name} "), meta)));
    }
    Ok(CompleteResult { items, replace_from: replaces.start })
}

/// Returns names of a kind, each with what it is.
async fn names(
    call: &MethodCall,
    session: Option<&Arc<Session>>,
    wanted: ArgumentKind,
    typed: &str,
    verb: &[String],
) -> Vec<(String, String)> {
    let bare = |names: Vec<String>| names.into_iter().map(|name| (name, String::new())).collect();
    let runtime = call.server.runtime();
    match wanted {
        ArgumentKind::Model => bare(known_models(&runtime.settings().reload())),
        ArgumentKind::Conversation => {
            let found = runtime
                .agent()
                .store()
                .list(&ConversationFilter::default())
                .await
                .unwrap_or_default();
            let named = found.into_iter().map(|summary| {
                let title = summary.conversation.title.unwrap_or(summary.preview);
                (summary.conversation.id.short().to_owned(), title)
            });
            named.collect()
        }
        ArgumentKind::Job => {
            let Some(handles) = session.and_then(|session| session.handles()) else {
                return Vec::new();
            };
            let Some(sandbox) = handles.sandbox.attached() else { return Vec::new() };
            let jobs = Box::pin(sandbox.jobs_of_session(handles.sandbox.session())).await;
            let jobs = jobs.unwrap_or_default();
            jobs.into_iter().map(|job| (job.id.to_string(), job.summary)).collect()
        }
        ArgumentKind::Tool => {
            let tools = runtime.agent().tools();
            let sets = tools.toolsets();
            let sets = sets.iter().map(|set| ((*set).to_owned(), "toolset".to_owned()));
            let names = tools.names().map(|name| (name.to_owned(), "tool".to_owned()));
            sets.chain(names).collect()
        }
        ArgumentKind::Verb => {
            let words: Vec<String> =
                verb.iter().cloned().chain(std::iter::once(typed.to_owned())).collect();
            bare(runtime.verbs().complete(&words).await)
        }
        ArgumentKind::Task
        | ArgumentKind::Snapshot
        | ArgumentKind::Command
        | ArgumentKind::Approval
        | ArgumentKind::Number
        | ArgumentKind::Text => Vec::new(),
    }
}

/// A path that is being typed.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct CompletePathParams {
    /// The live session, whose sandbox is looked at. One that was never used is not started.
    session_id: String,
    /// The path so far, with or without `@` before it; relative ones begin where the shell is.
    word: String,
}

pub(super) async fn complete_path(
    call: MethodCall,
    params: CompletePathParams,
) -> Result<CompleteResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let path = params.word.strip_prefix('@').unwrap_or(&params.word);
    let name = path.rsplit('/').next().unwrap_or_default();
    let dir = path.get(..path.len() - name.len()).unwrap_or_default();
    let replace_from = params.word.len() - name.len();
    let empty = CompleteResult { items: Vec::new(), replace_from };
    let handles = session.handles().filter(|handles| handles.sandbox.attached().is_some());
    let Some(handles) = handles else { return Ok(empty) };
    let listing = async {
        let files = handles.sandbox.files(&EventSink::discard()).await.ok()?;
        let dir = if dir.is_empty() { Path::new(".") } else { Path::new(dir) };
        files.list(dir, 10_000).await.ok()
    };
    let page = tokio::time::timeout(COMPLETION_TIMEOUT, listing).await.ok().flatten();
    let entries = page.map(|page| page.entries).unwrap_or_default();
    let mut items: Vec<CompletionItem> = entries
        .into_iter()
        .filter_map(|entry| {
            let is_dir = entry.kind == vestal_sandbox::FileKind::Directory;
            let own = String::from_utf8(entry.name.into()).ok()?;
            let is_hidden = own.starts_with('.') && !name.starts_with('.');
            if !own.starts_with(name) || is_hidden {
                return None;
            }
            let text = if is_dir { format!("{own}/") } else { own };
            let meta = if is_dir { "directory" } else { "file" }.to_owned();
            Some(CompletionItem { display: text.clone(), text, meta })
        })
        .collect();
    items.sort_by(|a, b| a.text.cmp(&b.text));
    items.truncate(MOST);
    Ok(CompleteResult { items, replace_from })
}
