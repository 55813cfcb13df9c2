//! The methods: one table, from which requests are carried out and the catalogue is made.

mod agent;
mod commands;
mod config;
mod history;
mod images;
mod prompts;
mod sandbox;
mod schedules;
mod sessions;
mod stored;

use std::pin::Pin;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{self, RpcError};
use crate::outbox::ClientOutbox;
use crate::server::Server;

pub(crate) use agent::switch_tools;
pub(crate) use config::set_model;
pub(crate) use history::{compress_session, status_text, undo_turns, usage_text, usage_totals};
pub(crate) use prompts::submit_prompt;
pub(crate) use sandbox::{jobs_text, kill_job, stop_jobs};
pub(crate) use sessions::{
    CreateParams, LiveResult, branch_session, create_session_in, resume_session,
};
pub(crate) use stored::set_title;

/// Who calls a method.
#[derive(Debug, Clone)]
pub(crate) struct MethodCall {
    pub(crate) server: Server,
    /// The number of the connection.
    pub(crate) connection: u64,
    /// Where answers and events for it go.
    pub(crate) outbox: ClientOutbox,
}

/// When a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerPace {
    /// At once, before the next frame is read.
    Inline,
    /// When it is done; later requests may be answered before.
    Beside,
}

type Answering = Pin<Box<dyn Future<Output = Result<Value, RpcError>> + Send>>;

/// A method.
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) pace: AnswerPace,
    pub(crate) params: fn() -> Value,
    pub(crate) result: fn() -> Value,
    pub(crate) call: fn(MethodCall, Map<String, Value>) -> Answering,
}

/// Declares the table: pace, name, handler, and what it does. The types of the handler are those
/// of the method.
macro_rules! methods {
    ($($pace:ident $name:literal = $handler:path, $params:ty => $result:ty: $about:literal;)*) => {
        /// All methods, in the order of the catalogue.
        pub(crate) static METHODS: &[Method] = &[$(Method {
            name: $name,
            about: $about,
            pace: AnswerPace::$pace,
            params: schema::<$params>,
            result: schema::<$result>,
            call: |call, params| Box::pin(async move {
                let params: $params = read(params)?;
                let result: $result = $handler(call, params).await?;
                write(&result)
            }),
        },)*];
    };
}

methods! {
    Inline "session.create" = sessions::create, sessions::CreateParams => LiveResult:
        "Begins a session. Nothing is stored before the first prompt.";
    Beside "session.list" = stored::list, stored::ListParams => stored::ListResult:
        "Lists conversations, most recently used first.";
    Beside "session.most_recent" = stored::most_recent, Nothing => stored::MostRecentResult:
        "Returns the conversation that was used last.";
    Beside "session.resume" = sessions::resume, sessions::ResumeParams => LiveResult:
        "Goes on with a conversation, by its id, a beginning of it, or its title. One that is live already is joined.";
    Inline "session.active_list" = sessions::active_list, sessions::ActiveListParams => sessions::ActiveListResult:
        "Lists the live sessions.";
    Beside "session.activate" = sessions::activate, SessionParams => LiveResult:
        "Watches a live session from now on; a running turn continues.";
    Beside "session.close" = sessions::close, SessionParams => sessions::CloseResult:
        "Interrupts what runs in a session and closes it. The conversation can be resumed, and its sandbox stays.";
    Beside "session.delete" = stored::delete, stored::DeleteParams => stored::DeleteResult:
        "Deletes a conversation that is not live.";
    Beside "session.title" = stored::title, stored::TitleParams => stored::TitleResult:
        "Returns the title, or sets it.";
    Beside "session.save" = history::save, SessionParams => history::SaveResult:
        "Writes the conversation to a file in the home of the profile, as `vestal conversations export` does.";
    Beside "session.status" = history::status, SessionParams => history::StatusResult:
        "Says where things stand, as text.";
    Beside "session.usage" = history::usage, SessionParams => history::UsageResult:
        "Returns tokens and cost of the conversation, by model.";
    Beside "session.history" = history::history, history::HistoryParams => history::HistoryResult:
        "Returns the messages that the model sees, from the store.";
    Beside "session.undo" = history::undo, history::UndoParams => history::UndoResult:
        "Takes back the last turns, for good and for every process.";
    Beside "session.context_breakdown" = history::context, SessionParams => history::ContextResult:
        "Returns what the next request is made of, in tokens by estimate.";
    Beside "session.compress" = history::compress, SessionParams => history::CompressResult:
        "Puts a summary in the place of what is long past.";
    Beside "session.branch" = sessions::branch, sessions::BranchParams => sessions::BranchResult:
        "Copies the conversation into a new live session, to go another way from here.";
    Beside "session.cwd.set" = sessions::set_cwd, sessions::CwdParams => sessions::CwdResult:
        "Sets the directory of the host that a session is about, before its first message.";
    Inline "session.interrupt" = prompts::interrupt, SessionParams => prompts::InterruptResult:
        "Interrupts the turn with everything it runs, and drops prompts that wait.";
    Inline "session.steer" = prompts::steer, prompts::SteerParams => prompts::SteerResult:
        "Says something to the model at its next step, without interrupting it.";
    Inline "prompt.submit" = prompts::submit, prompts::SubmitParams => prompts::SubmitResult:
        "Says something. The answer comes as events, from message.start to message.complete.";
    Inline "prompt.background" = prompts::background, prompts::BackgroundParams => prompts::BackgroundResult:
        "Has something done in a conversation of its own; background.complete tells the result.";
    Beside "image.attach" = images::attach, images::AttachParams => images::AttachResult:
        "Has a picture sent with the next prompt of a session.";
    Inline "image.detach" = images::detach, images::DetachParams => images::DetachResult:
        "Takes back pictures that were attached.";
    Inline "approval.respond" = prompts::approve, prompts::ApproveParams => prompts::ApproveResult:
        "Answers requests for approval: the one named, else the oldest, or all.";
    Inline "clarify.respond" = prompts::clarify, prompts::ClarifyParams => prompts::ClarifyResult:
        "Answers a question of the model.";
    Inline "commands.catalog" = commands::catalog, Nothing => commands::CatalogResult:
        "Lists the slash commands and the skills that can be called like one.";
    Inline "command.resolve" = commands::resolve, commands::ResolveParams => commands::CommandView:
        "Returns the command that a name or an alias stands for.";
    Beside "command.dispatch" = commands::dispatch, commands::DispatchParams => crate::slash::SlashOutput:
        "Carries out a command, given by name and argument.";
    Beside "slash.exec" = commands::exec, commands::SlashExecParams => crate::slash::SlashOutput:
        "Carries out a command as it is typed: `/undo 2`.";
    Beside "complete.slash" = commands::complete_slash, commands::CompleteSlashParams => commands::CompleteResult:
        "Returns what could be typed next in a slash command.";
    Beside "complete.path" = commands::complete_path, commands::CompletePathParams => commands::CompleteResult:
        "Returns files and directories of the session's sandbox that a word may mean.";
    Beside "config.get" = config::get, config::GetParams => config::ConfigValue:
        "Returns a setting: `model`, `yolo` and `busy` of a session, or any key of the profile.";
    Beside "config.set" = config::set, config::SetParams => config::ConfigChanged:
        "Changes a setting: `model`, `yolo` and `busy` of a session, or any key in the profile's config.yaml.";
    Beside "config.show" = config::show, config::ShowParams => config::ShowResult:
        "Returns every key of the profile with its value and where that comes from; secrets are masked.";
    Beside "insights.get" = history::insights, Nothing => history::InsightsResult:
        "Returns tokens and cost of all conversations of the profile, by model.";
    Beside "model.options" = config::models, config::ModelsParams => config::ModelsResult:
        "Returns the models that the providers offer, as `vestal model list --json` does.";
    Beside "process.list" = sandbox::processes, SessionParams => sandbox::ProcessesResult:
        "Lists the background jobs of a session.";
    Beside "process.kill" = sandbox::kill, sandbox::KillParams => sandbox::KillResult:
        "Ends a background job with everything it started.";
    Beside "process.stop" = sandbox::stop, SessionParams => sandbox::StopResult:
        "Ends all background jobs of a session.";
    Inline "delegation.status" = sandbox::delegation, SessionParams => sandbox::DelegationResult:
        "Lists the subagents at work.";
    Inline "subagent.interrupt" = sandbox::interrupt_subagent, sandbox::InterruptParams => sandbox::InterruptSubagentResult:
        "Interrupts one subagent; its parent continues.";
    Beside "shell.exec" = sandbox::exec, sandbox::SandboxExecParams => sandbox::ExecResult:
        "Runs a command in the shell of a session, also while a turn runs. What is dangerous is asked about.";
    Beside "cli.exec" = agent::cli, agent::CliParams => agent::CliResult:
        "Runs a verb of the command line without a terminal; nothing is asked, so that what needs a confirmation needs `-y`.";
    Inline "tools.list" = agent::tools, SessionParams => agent::ToolsResult:
        "Lists the tools that the model has.";
    Inline "tools.show" = agent::show_tool, agent::ToolParams => agent::ToolResultView:
        "Returns the description of a tool for the model.";
    Beside "tools.configure" = agent::configure, agent::ConfigureParams => agent::ConfigureResult:
        "Gives the model tools or toolsets, or takes them, in this session only.";
    Beside "toolsets.list" = agent::toolsets, SessionParams => agent::ToolsetsResult:
        "Lists all tools there are, by toolset, and which of them the model has.";
    Beside "skills.manage" = agent::skills, agent::SkillsParams => agent::SkillsResult:
        "Lists, shows, enables, disables and removes skills of the profile.";
    Beside "skills.reload" = agent::reload_skills, Nothing => agent::ReloadSkillsResult:
        "Looks at the skills again and tells every session which there are.";
    Beside "reload.mcp" = agent::reload_mcp, Nothing => agent::ReloadMcpResult:
        "Reads the MCP servers from the settings again and connects to them.";
    Beside "cron.manage" = schedules::manage, schedules::CronParams => schedules::CronResult:
        "Lists, makes, changes and runs the schedules of the profile, which its gateway runs.";
    Beside "setup.status" = agent::setup, Nothing => agent::SetupResult:
        "Says whether a model is configured, and what to do if none is.";
}

/// A method that takes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// A method about a live session.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SessionParams {
    /// The live session.
    pub(crate) session_id: String,
}

pub(crate) fn read<T: DeserializeOwned>(params: Map<String, Value>) -> Result<T, RpcError> {
    serde_json::from_value(Value::Object(params))
        .map_err(|error| RpcError::new(error::BAD_PARAMS, format!("params: {error}")))
}

pub(crate) fn write(result: &impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(result)
        .map_err(|error| RpcError::new(error::INTERNAL, format!("the result: {error}")))
}

pub(crate) fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
