//! What the agent works with: tools, skills, MCP servers, and whether it is set up at all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vestal_agent::{Conversation, Switch, ToolInfo};
use vestal_api::{
    BrokenSkillView, RemovedSkillView, SkillDetailsView, SkillFileView, SkillView, SkillsView,
};
use vestal_runtime::{RuntimeError, endpoints};
use vestal_skills::{SkillError, Skills, SwitchedSkill};

use super::{MethodCall, Nothing, SessionParams};
use crate::error::{self, RpcError};
use crate::remote::ClientLocation;
use crate::session::Session;

/// Tools.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ToolsResult {
    /// Names of those that the model has.
    tools: Vec<String>,
}

pub(super) async fn tools(
    call: MethodCall,
    params: SessionParams,
) -> Result<ToolsResult, RpcError> {
    Ok(ToolsResult { tools: call.server.session(&params.session_id)?.facts().tools })
}

/// A tool that is asked about.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ToolParams {
    /// Its name.
    name: String,
}

/// A tool.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ToolResultView {
    /// Its name.
    name: String,
    /// The group it is enabled and disabled with.
    toolset: String,
    /// What the model is told of it.
    description: String,
    /// The JSON schema of its arguments.
    parameters: Value,
}

pub(super) async fn show_tool(
    call: MethodCall,
    params: ToolParams,
) -> Result<ToolResultView, RpcError> {
    let tool = call.server.runtime().agent().tools().get(&params.name).cloned();
    let tool = tool.ok_or_else(|| {
        let name = crate::protocol::shown(&params.name);
        RpcError::new(error::NOT_FOUND, format!("there is no tool {name:?}"))
            .advise("toolsets.list lists them; tools of MCP servers are shown by their servers")
    })?;
    let (toolset, spec) = (tool.toolset().to_owned(), tool.spec());
    Ok(ToolResultView {
        name: spec.name,
        toolset,
        description: spec.description,
        parameters: spec.parameters,
    })
}

/// A group of tools.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SessionToolsetView {
    /// Its name.
    name: String,
    /// Its tools.
    tools: Vec<ToolView>,
}

/// A tool in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ToolView {
    /// Its name.
    name: String,
    /// Whether the model has it in this session.
    enabled: bool,
    /// What it does, in a sentence.
    description: String,
}

/// Groups of tools.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ToolsetsResult {
    /// By name.
    toolsets: Vec<SessionToolsetView>,
}

pub(super) async fn toolsets(
    call: MethodCall,
    params: SessionParams,
) -> Result<ToolsetsResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let mut exclusive = session.exclusive("listing the tools").await?;
    let tools = match exclusive.conversation() {
        Some(conversation) => conversation.tools(),
        // Looking stores nothing: what it would have is known without opening it.
        None => configured_tools(&session),
    };
    Ok(toolsets_of(tools))
}

/// Returns the tools that the conversation of a session would be opened with, those of MCP servers
/// aside.
fn configured_tools(session: &Session) -> Vec<ToolInfo> {
    let (all, chosen) = (session.runtime.agent().tools(), session.facts().tools);
    let tools = all.names().filter_map(|name| all.get(name)).map(|tool| {
        let spec = tool.spec();
        let about = spec.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let about = about.split_inclusive(". ").next().unwrap_or_default();
        ToolInfo {
            is_on: chosen.contains(&spec.name),
            toolset: tool.toolset().to_owned(),
            about: about.trim().to_owned(),
            name: spec.name,
        }
    });
    let mut tools: Vec<ToolInfo> = tools.collect();
    tools.sort_by(|a, b| (&a.toolset, &a.name).cmp(&(&b.toolset, &b.name)));
    tools
}

fn toolsets_of(tools: Vec<ToolInfo>) -> ToolsetsResult {
    let mut toolsets: Vec<SessionToolsetView> = Vec::new();
    for ToolInfo { name, toolset, is_on, about } in tools {
        let tool = ToolView { name, enabled: is_on, description: about };
        match toolsets.last_mut().filter(|last| last.name == toolset) {
            Some(last) => last.tools.push(tool),
            None => toolsets.push(SessionToolsetView { name: toolset, tools: vec![tool] }),
        }
    }
    ToolsetsResult { toolsets }
}

/// Tools to be switched in a session.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ConfigureParams {
    /// The live session.
    session_id: String,
    /// Tools and toolsets.
    names: Vec<String>,
    /// Whether the model is to have them.
    enabled: bool,
}

/// Tools that were switched.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConfigureResult {
    /// Those that were not so before.
    changed: Vec<String>,
    /// Names of those that the model has now.
    tools: Vec<String>,
}

pub(super) async fn configure(
    call: MethodCall,
    params: ConfigureParams,
) -> Result<ConfigureResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let switch = if params.enabled { Switch::On } else { Switch::Off };
    let names: Vec<&str> = params.names.iter().map(String::as_str).collect();
    let changed = switch_tools(&call, &session, &names, switch).await?;
    Ok(ConfigureResult { changed, tools: session.facts().tools })
}

/// Gives the model of a session tools, or takes them. Returns those that were not so before.
pub(crate) async fn switch_tools(
    call: &MethodCall,
    session: &std::sync::Arc<Session>,
    names: &[&str],
    switch: Switch,
) -> Result<Vec<String>, RpcError> {
    let mut exclusive = session.exclusive("switching tools").await?;
    let conversation = exclusive.opened().await?;
    let mut changed = Vec::new();
    for name in names {
        if switch == Switch::On && call.server.clients() == ClientLocation::Remote {
            refuse_withheld(conversation, name)?;
        }
        changed.extend(conversation.switch_tool(name, switch).await?);
    }
    session.refresh(conversation).await;
    Ok(changed)
}

/// Refuses a tool that the settings withhold from the model: a client over a network cannot give it
/// back.
fn refuse_withheld(conversation: &Conversation, name: &str) -> Result<(), RpcError> {
    let withheld = conversation.withheld_tools(name);
    let Some(tool) = withheld.first() else { return Ok(()) };
    let message = format!("the settings of this profile withhold the tool {tool}");
    Err(RpcError::new(error::NOT_PERMITTED, message)
        .advise("at the machine: toolsets, agent.disabled_toolsets and agent.disabled_tools"))
}

/// What is to be done with skills.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SkillsParams {
    /// What; `list` without it.
    #[serde(default)]
    action: SkillsAction,
    /// The skill, for all but `list`.
    #[serde(default)]
    name: Option<String>,
}

/// What is to be done with skills.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SkillsAction {
    /// Lists them.
    #[default]
    List,
    /// Shows one with its instructions and files.
    Show,
    /// Has the agent use one.
    Enable,
    /// Has the agent not use one, which stays installed.
    Disable,
    /// Removes one with its folder.
    Remove,
}

/// Skills.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum SkillsResult {
    /// Of `list`, as `vestal skills list --json` prints them: `skills` and `broken`.
    List(#[schemars(with = "Value")] SkillsView),
    /// Of `show`, as `vestal skills show --json` prints it.
    Show(#[schemars(with = "Value")] Box<SkillDetailsView>),
    /// Of `enable` and `disable`.
    Switched(SwitchedResult),
    /// Of `remove`, as `vestal skills remove --json` prints it.
    Removed(#[schemars(with = "Value")] RemovedSkillView),
}

/// A skill that was enabled or disabled.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SwitchedResult {
    /// The skill.
    name: String,
    /// Whether it was not so before.
    changed: bool,
    /// Why that has no effect, if something overrides the setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

impl From<SwitchedSkill> for SwitchedResult {
    fn from(switched: SwitchedSkill) -> Self {
        let SwitchedSkill { name, is_changed, warning } = switched;
        Self { name, changed: is_changed, warning }
    }
}

pub(super) async fn skills(
    call: MethodCall,
    params: SkillsParams,
) -> Result<SkillsResult, RpcError> {
    let skills = call.server.runtime().skills();
    let name = || {
        let name = params.name.as_deref().filter(|name| !name.trim().is_empty());
        name.ok_or_else(|| RpcError::empty("name"))
    };
    let done = match params.action {
        SkillsAction::List => return Ok(SkillsResult::List(listed(skills))),
        SkillsAction::Show => return Ok(SkillsResult::Show(Box::new(shown(skills, name()?)?))),
        SkillsAction::Enable => SkillsResult::Switched(skills.enable(name()?)?.into()),
        SkillsAction::Disable => SkillsResult::Switched(skills.disable(name()?)?.into()),
        SkillsAction::Remove => {
            let name = name()?.to_owned();
            let path = skills.remove(&name)?.display().to_string();
            SkillsResult::Removed(RemovedSkillView { name, path })
        }
    };
    report_skills(&call);
    Ok(done)
}

fn listed(skills: &Skills) -> SkillsView {
    let found = skills.catalogue();
    let view = |skill| SkillView::new(skill, &skills.needs(skill));
    SkillsView {
        skills: found.skills.iter().map(view).collect(),
        broken: found.broken.iter().map(BrokenSkillView::from).collect(),
    }
}

fn shown(skills: &Skills, name: &str) -> Result<SkillDetailsView, SkillError> {
    let skill = skills.installed(name)?;
    let content = skills.read_instructions(&skill)?;
    // Files that no sandbox could be shown are left out, as the command line does.
    let survey = skills.survey(&skill).ok();
    let files = survey.iter().flat_map(|survey| &survey.files).map(SkillFileView::from).collect();
    Ok(SkillDetailsView { skill: SkillView::new(&skill, &skills.needs(&skill)), files, content })
}

/// Sends the skills that there are now to the watchers of all sessions.
fn report_skills(call: &MethodCall) {
    let names = call.server.runtime().skills().names();
    for session in call.server.sessions() {
        session.update_facts(|facts| facts.skills.clone_from(&names));
    }
}

/// Skills that there are.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReloadSkillsResult {
    /// Names of those that can be used.
    skills: Vec<String>,
}

pub(super) async fn reload_skills(
    call: MethodCall,
    _: Nothing,
) -> Result<ReloadSkillsResult, RpcError> {
    report_skills(&call);
    Ok(ReloadSkillsResult { skills: call.server.runtime().skills().names() })
}

/// MCP servers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReloadMcpResult {
    /// Each with `name`, `state`, `tools` and `error`.
    servers: Vec<Value>,
}

pub(super) async fn reload_mcp(call: MethodCall, _: Nothing) -> Result<ReloadMcpResult, RpcError> {
    let servers = call.server.runtime().reload_mcp().await;
    let servers: Result<Vec<Value>, _> = servers.iter().map(serde_json::to_value).collect();
    let servers = servers.map_err(|error| RpcError::new(error::INTERNAL, error.to_string()))?;
    Ok(ReloadMcpResult { servers })
}

/// Whether the agent can be asked.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SetupResult {
    /// Whether a model is configured.
    ready: bool,
    /// The model that is asked first, as `PROVIDER:MODEL`.
    model: Option<String>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    advice: Vec<String>,
}

pub(super) async fn setup(call: MethodCall, _: Nothing) -> Result<SetupResult, RpcError> {
    let today = call.server.runtime().settings().reload();
    Ok(match endpoints(&today, None) {
        Ok(chain) => {
            let first = chain.first();
            let model = first.map(|endpoint| format!("{}:{}", endpoint.name, endpoint.model));
            SetupResult { ready: model.is_some(), model, problem: None, advice: Vec::new() }
        }
        Err(error) => {
            let problem = Some(error.to_string());
            let advice = match &error {
                RuntimeError::Endpoint { reason, profile } => reason.advice_in(profile),
                _ => Vec::new(),
            };
            SetupResult { ready: false, model: None, problem, advice }
        }
    })
}

/// A verb of the command line.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct CliParams {
    /// The verb with its arguments, without the program.
    argv: Vec<String>,
}

/// What a verb printed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CliResult {
    /// Whether it was not run, because it needs a terminal, serves until it is stopped, or is not for
    /// clients over a network.
    blocked: bool,
    /// Whether it succeeded.
    ok: bool,
    /// What it printed, data and messages together, at most 1 MiB of each.
    output: String,
}

/// Verbs that need a terminal, or go on until somebody stops them.
const NEED_A_TERMINAL: &[&str] =
    &["acp", "chat", "dashboard", "serve", "shell", "supervise", "worker"];

pub(super) async fn cli(call: MethodCall, params: CliParams) -> Result<CliResult, RpcError> {
    let Some(verb) = verb_of(&params.argv) else { return Err(RpcError::empty("argv")) };
    if NEED_A_TERMINAL.contains(&verb) {
        let output = format!("`vestal {verb}` is of use at a terminal only\n");
        return Ok(CliResult { blocked: true, ok: false, output });
    }
    if let Err(refused) = call.server.clients().check_verb(&params.argv) {
        return Ok(CliResult {
            blocked: true,
            ok: false,
            output: format!("{}\n", refused.message),
        });
    }
    let done = call.server.runtime().verbs().run(params.argv).await;
    let done = done.map_err(|reason| RpcError::new(error::HOST, reason))?;
    Ok(CliResult { blocked: false, ok: done.is_success, output: done.text })
}

/// Returns the verb of a command line, whatever stands before it.
fn verb_of(argv: &[String]) -> Option<&str> {
    let mut words = argv.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "-p" | "--profile" | "--set" => drop(words.next()),
            _ if word.starts_with('-') => {}
            _ => return Some(word),
        }
    }
    None
}
