//! What the agent has beyond its own tools: skills, notes, MCP servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use vestal_agent::redact::Redactor;
use vestal_api::dashboard::{NotesPageView, SkillSwitchedView};
use vestal_api::{
    BrokenSkillView, McpServerView, McpTestView, NotesView, RemovedSkillView, SkillDetailsView,
    SkillFileView, SkillView, SkillsView,
};
use vestal_config::{AnyKey as _, Settings, remove_entry, set_entry};
use vestal_mcp::{McpServerName, NewMcpServer, Servers};
use vestal_memory::{Enabled, Entries, MemoryError, NoteChange, NoteFiles, NotesTarget};
use vestal_skills::{SkillError, Skills, SwitchedSkill};

use super::{OneProfileQuery, bad_request};
use crate::app::{App, AppState};
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/skills", list_skills).needs(Right::Viewer),
        Route::get("/api/skills/{profile}/{name}", show_skill).needs(Right::Viewer),
        Route::post("/api/skills/{profile}/{name}/enable", enable_skill).needs(Right::Operator),
        Route::post("/api/skills/{profile}/{name}/disable", disable_skill).needs(Right::Operator),
        Route::post("/api/skills/{profile}/{name}/remove", remove_skill).needs(Right::Operator),
        Route::get("/api/memory", notes).needs(Right::Viewer),
        Route::post("/api/memory/{profile}/{target}", write_notes).needs(Right::Operator),
        Route::get("/api/mcp", servers).needs(Right::Viewer),
        Route::post("/api/mcp/{profile}", add_server).needs(Right::Operator),
        Route::post("/api/mcp/{profile}/{name}/test", test_server).needs(Right::Operator),
        Route::post("/api/mcp/{profile}/{name}/remove", remove_server).needs(Right::Operator),
    ]
}

fn settings_of(app: &AppState, profile: &str) -> Result<Settings, PageError> {
    Ok(app.data.settings(app.data.profile(profile)?.profile()))
}

fn skills_of(app: &AppState, profile: &str) -> Result<Skills, PageError> {
    Ok(vestal_skills::from_settings(&Arc::new(settings_of(app, profile)?)))
}

async fn list_skills(
    State(app): State<App>,
    Query(query): Query<OneProfileQuery>,
) -> Result<Json<SkillsView>, PageError> {
    let skills = skills_of(&app, query.name(&app)?.as_str())?;
    let catalogue = skills.catalogue();
    let view = |skill| SkillView::new(skill, &skills.needs(skill));
    Ok(Json(SkillsView {
        skills: catalogue.skills.iter().map(view).collect(),
        broken: catalogue.broken.iter().map(BrokenSkillView::from).collect(),
    }))
}

type SkillPath = Path<(String, String)>;

async fn show_skill(
    State(app): State<App>,
    Path((profile, name)): SkillPath,
) -> Result<Json<SkillDetailsView>, PageError> {
    let skills = skills_of(&app, &profile)?;
    let skill = skills.installed(&name)?;
    let content = skills.read_instructions(&skill)?;
    let survey = skills.survey(&skill);
    let files = survey.iter().flat_map(|survey| &survey.files).map(SkillFileView::from).collect();
    let skill = SkillView::new(&skill, &skills.needs(&skill));
    Ok(Json(SkillDetailsView { skill, files, content }))
}

fn switched(done: SwitchedSkill) -> Json<SkillSwitchedView> {
    let SwitchedSkill { name, is_changed, warning } = done;
    Json(SkillSwitchedView { name, changed: is_changed, warning })
}

async fn enable_skill(
    State(app): State<App>,
    Path((profile, name)): SkillPath,
) -> Result<Json<SkillSwitchedView>, PageError> {
    Ok(switched(skills_of(&app, &profile)?.enable(&name)?))
}

async fn disable_skill(
    State(app): State<App>,
    Path((profile, name)): SkillPath,
) -> Result<Json<SkillSwitchedView>, PageError> {
    Ok(switched(skills_of(&app, &profile)?.disable(&name)?))
}

async fn remove_skill(
    State(app): State<App>,
    Path((profile, name)): SkillPath,
) -> Result<Json<RemovedSkillView>, PageError> {
    let path = skills_of(&app, &profile)?.remove(&name)?.display().to_string();
    Ok(Json(RemovedSkillView { name, path }))
}

fn note_files(settings: &Settings) -> Result<NoteFiles, PageError> {
    let unreadable = |error: vestal_config::ConfigError| PageError::conflict(error.to_string());
    let redactor = vestal_runtime::redactor(settings).map_err(unreadable)?;
    vestal_memory::files(settings, redactor).map_err(unreadable)
}

/// Returns notes with their text, which is what a person edits.
fn notes_view(settings: &Settings, target: NotesTarget) -> Result<NotesPageView, PageError> {
    let files = note_files(settings)?;
    let enabled = Enabled::of(settings).is_ok_and(|enabled| enabled.has(target));
    let (text, error) = match files.read_text(target) {
        Ok(text) => (text, None),
        Err(error) => (String::new(), Some(error.to_string())),
    };
    let mut notes = NotesView::new(&files, enabled, target, &Entries::parse(&text));
    notes.error = error;
    Ok(NotesPageView { notes, text, has_secret: false })
}

async fn notes(
    State(app): State<App>,
    Query(query): Query<OneProfileQuery>,
) -> Result<Json<Vec<NotesPageView>>, PageError> {
    let settings = app.data.settings(&query.name(&app)?);
    let views = NotesTarget::ALL.into_iter().map(|target| notes_view(&settings, target));
    Ok(Json(views.collect::<Result<_, _>>()?))
}

#[derive(Deserialize)]
struct NotesRequest {
    /// The text that the change was made from.
    from: String,
    text: String,
}

async fn write_notes(
    State(app): State<App>,
    Path((profile, target)): Path<(String, String)>,
    body: Result<Json<NotesRequest>, JsonRejection>,
) -> Result<Json<NotesPageView>, PageError> {
    let Json(request) =
        body.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    let target: NotesTarget = target
        .parse()
        .map_err(|error: vestal_memory::UnknownTarget| PageError::not_found(error.to_string()))?;
    let settings = settings_of(&app, &profile)?;
    let files = note_files(&settings)?;
    let NotesRequest { from, text } = &request;
    files.change(target, NoteChange::Rewrite { from, text })?;
    // It was left out: notes are sent to every model.
    let has_secret = files.has_secret(text);
    Ok(Json(NotesPageView { has_secret, ..notes_view(&settings, target)? }))
}

async fn servers(
    State(app): State<App>,
    Query(query): Query<OneProfileQuery>,
) -> Result<Json<Vec<McpServerView>>, PageError> {
    let settings = app.data.settings(&query.name(&app)?);
    let found = settings.get(&vestal_mcp::keys::MCP_SERVERS);
    let found = found.map_err(|error| PageError::conflict(error.to_string()))?;
    let (source, redactor) = (found.source.to_string(), Redactor::new(settings.known_secrets()));
    let view = |(name, server)| McpServerView::new(name, server, &source, &redactor);
    Ok(Json(found.value.iter().map(view).collect()))
}

/// Finds a server that a path names.
fn server(
    settings: &Settings,
    name: &str,
) -> Result<(McpServerName, vestal_mcp::McpServer), PageError> {
    let absent = || PageError::not_found(format!("there is no MCP server {name}"));
    let name = McpServerName::new(name).ok_or_else(absent)?;
    let found = settings.get(&vestal_mcp::keys::MCP_SERVERS);
    let found = found.map_err(|error| PageError::conflict(error.to_string()))?.value;
    let absent = || PageError::not_found(format!("there is no MCP server {name}"));
    let server = found.get(&name).cloned().ok_or_else(absent)?;
    Ok((name, server))
}

/// Connects to a server, asks what it has, and ends it again.
async fn test_server(
    State(app): State<App>,
    Path((profile, name)): SkillPath,
) -> Result<Json<McpTestView>, PageError> {
    let settings = settings_of(&app, &profile)?;
    let (name, server) = server(&settings, &name)?;
    let tried = Servers::probe(&settings, name.as_str(), &server).await;
    Ok(Json(McpTestView::new(name.as_str(), tried)))
}

#[derive(Deserialize)]
struct AddServerRequest {
    name: String,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// A program with its arguments.
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    timeout: Option<u64>,
    /// Add it also where it does not answer.
    #[serde(default)]
    untested: bool,
    #[serde(default)]
    replace: bool,
}

/// Adds a server that answers.
async fn add_server(
    State(app): State<App>,
    Path(profile): Path<String>,
    body: Result<Json<AddServerRequest>, JsonRejection>,
) -> Result<Json<McpTestView>, PageError> {
    let Json(request) = body.map_err(|rejection| {
        bad_request(
            rejection.status(),
            "a name and an address or a command are asked for".to_owned(),
        )
    })?;
    let settings = settings_of(&app, &profile)?;
    let AddServerRequest { name, url, headers, command, env, timeout, untested, replace } = request;
    if !replace && server(&settings, &name).is_ok() {
        return Err(PageError::conflict(format!("the MCP server {name} exists already")));
    }
    let new = NewMcpServer { url, headers, command, env, cwd: None, timeout };
    let entry = new.entry().map_err(|error| PageError::invalid(error.to_string()))?;
    let understood = NewMcpServer::understood(&settings, &name, &entry);
    let (name, understood) = understood.map_err(|error| PageError::invalid(error.to_string()))?;
    let tried = if untested {
        McpTestView {
            name: name.to_string(),
            ok: false,
            server: None,
            protocol: None,
            tools: Vec::new(),
            took_ms: None,
            error: None,
        }
    } else {
        McpTestView::new(name.as_str(), Servers::probe(&settings, name.as_str(), &understood).await)
    };
    if !tried.ok && !untested {
        let why = tried.error.clone().unwrap_or_default();
        return Err(PageError::conflict(format!(
            "{name} does not answer, so it was not added: {why}"
        ))
        .advise("to add it all the same, have it added without being tried"));
    }
    set_entry(&settings, vestal_mcp::keys::MCP_SERVERS.name(), name.as_str(), &entry)?;
    Ok(Json(tried))
}

async fn remove_server(
    State(app): State<App>,
    Path((profile, name)): SkillPath,
) -> Result<Json<serde_json::Value>, PageError> {
    let settings = settings_of(&app, &profile)?;
    let (name, _) = server(&settings, &name)?;
    let removed = remove_entry(&settings, vestal_mcp::keys::MCP_SERVERS.name(), name.as_str())?;
    if removed.is_none() {
        return Err(PageError::conflict(format!("{name} is not in config.yaml")));
    }
    Ok(Json(serde_json::json!({ "name": name.to_string() })))
}

impl From<SkillError> for PageError {
    fn from(error: SkillError) -> Self {
        let detail = error.to_string();
        match error {
            SkillError::Unknown { .. } => Self::not_found(detail),
            _ => Self::conflict(detail),
        }
    }
}

impl From<MemoryError> for PageError {
    fn from(error: MemoryError) -> Self {
        Self::conflict(error.to_string())
    }
}
