//! Profiles: listed, made, cloned, renamed, deleted with what goes, exported and imported.

use std::fs::File;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use tokio_util::io::ReaderStream;
use vestal_api::dashboard::ProfilePlanView;
use vestal_api::{CreatedProfileView, DeletedProfileView, ImportedProfileView, RenamedProfileView};
use vestal_config::{Home, ProfileName};
use vestal_profiles::{MAX_ARCHIVE, ProfileError, ProfileListing, ProfileStart, Profiles};
use vestal_sandbox::{Engine, ProfileSandboxes, ProfileSandboxesError};

use super::bad_request;
use super::received::{PrivateDir, ReceivedFile};
use crate::app::{App, AppState};
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route, header_value};

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/profiles", list).needs(Right::Viewer),
        Route::get("/api/profiles/{profile}/plan", plan).needs(Right::Viewer),
        Route::get("/api/profiles/{profile}/export", export).needs(Right::Operator),
        Route::post("/api/profiles", create).needs(Right::Operator),
        Route::post("/api/profiles/import", import).needs(Right::Operator),
        Route::post("/api/profiles/{profile}/rename", rename).needs(Right::Operator),
        Route::post("/api/profiles/{profile}/delete", delete).needs(Right::Operator),
    ]
}

fn profiles(app: &AppState) -> Profiles {
    Profiles::at(&vestal_api::schema(), app.data.root().root())
}

fn named(name: &str) -> Result<ProfileName, PageError> {
    ProfileName::new(name.trim()).map_err(|error| PageError::invalid(error.to_string()))
}

async fn list(State(app): State<App>) -> Json<ProfileListing> {
    Json(profiles(&app).list(None))
}

#[derive(Deserialize)]
struct CreateProfileRequest {
    name: String,
    /// The profile whose settings, secrets, skills and memories it begins with.
    #[serde(default)]
    clone_from: Option<String>,
    #[serde(default)]
    description: String,
}

async fn create(
    State(app): State<App>,
    body: Result<Json<CreateProfileRequest>, JsonRejection>,
) -> Result<Json<CreatedProfileView>, PageError> {
    let Json(request) =
        body.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    let name = named(&request.name)?;
    let start = match request.clone_from.filter(|source| !source.is_empty()) {
        Some(source) => ProfileStart::CloneOf(named(&source)?),
        None => ProfileStart::Empty,
    };
    let created = profiles(&app).create(&name, &start, request.description.trim())?;
    let left_out = created.left_out.iter().map(|path| path.display().to_string());
    Ok(Json(CreatedProfileView {
        name: name.to_string(),
        path: created.home.dir().display().to_string(),
        left_out: left_out.collect(),
    }))
}

/// Finds the sandboxes of a profile; nothing where it never had any.
async fn sandboxes(app: &AppState, home: &Home) -> Result<Option<ProfileSandboxes>, PageError> {
    if !ProfileSandboxes::may_exist(home) {
        return Ok(None);
    }
    let engine = Engine::open(app.data.settings(home.profile()))?;
    Ok(Some(ProfileSandboxes::find(engine, home).await?))
}

/// Says what goes when a profile is renamed or deleted.
async fn plan(
    State(app): State<App>,
    Path(profile): Path<String>,
) -> Result<Json<ProfilePlanView>, PageError> {
    let home = app.data.profile(&profile)?;
    let found = sandboxes(&app, &home).await?;
    let sandboxes = found.iter().flat_map(ProfileSandboxes::instances).map(Into::into).collect();
    Ok(Json(ProfilePlanView {
        profile: home.profile().to_string(),
        path: home.dir().display().to_string(),
        sandboxes,
    }))
}

#[derive(Deserialize)]
struct RenameProfileRequest {
    to: String,
}

async fn rename(
    State(app): State<App>,
    Path(profile): Path<String>,
    body: Result<Json<RenameProfileRequest>, JsonRejection>,
) -> Result<Json<RenamedProfileView>, PageError> {
    let Json(request) =
        body.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    let (from, to) = (named(&profile)?, named(&request.to)?);
    let profiles = profiles(&app);
    let (old, _) = profiles.check_rename(&from, &to)?;
    let mut instances = 0;
    if let Some(found) = sandboxes(&app, &old).await? {
        found.refuse_volumes().await?;
        instances = found.release().await?;
    }
    app.data.forget(&from).await;
    let home = profiles.rename(&from, &to)?;
    Ok(Json(RenamedProfileView {
        name: to.to_string(),
        was: from.to_string(),
        path: home.dir().display().to_string(),
        instances,
    }))
}

#[derive(Deserialize)]
struct DeleteProfileRequest {
    /// The name, once more.
    confirm: String,
}

/// Deletes a profile with its sandboxes. Its gateway is stopped first, so that nothing writes meanwhile.
async fn delete(
    State(app): State<App>,
    Path(profile): Path<String>,
    body: Result<Json<DeleteProfileRequest>, JsonRejection>,
) -> Result<Json<DeletedProfileView>, PageError> {
    let Json(request) =
        body.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    let name = named(&profile)?;
    if request.confirm.trim() != name.as_str() {
        return Err(PageError::invalid(format!("write {name} to delete it; nothing was deleted")));
    }
    let profiles = profiles(&app);
    let home = profiles.check_delete(&name)?;
    let found = sandboxes(&app, &home).await?;
    app.host.stop_before_removal(&name).await.map_err(PageError::conflict)?;
    let sandboxes = match found {
        Some(found) => found.remove().await?,
        None => Vec::new(),
    };
    app.data.forget(&name).await;
    profiles.delete(&name)?;
    Ok(Json(DeletedProfileView { name: name.to_string(), sandboxes }))
}

/// Sends a profile as an archive, without its secrets.
async fn export(
    State(app): State<App>,
    Path(profile): Path<String>,
) -> Result<Response, PageError> {
    let name = app.data.profile(&profile)?.profile().clone();
    let profiles = profiles(&app);
    let run = app.data.root().run_dir();
    let made = {
        let name = name.clone();
        // Files are read and compressed: not on a thread that serves others.
        tokio::task::spawn_blocking(move || -> Result<File, PageError> {
            let dir = PrivateDir::new(&run)?;
            let path = dir.path().join("profile.tar.gz");
            profiles.export(&name, &path)?;
            // What is open is read to its end when its name is gone.
            File::open(&path).map_err(|error| PageError::internal(error.to_string()))
        })
        .await
    };
    let archive = made.map_err(|error| PageError::internal(error.to_string()))??;
    let disposition = header_value(&format!("attachment; filename=\"{name}.tar.gz\""))?;
    let size = archive.metadata().map_err(|error| PageError::internal(error.to_string()))?.len();
    let headers = [
        (header::CONTENT_LENGTH, header_value(&size.to_string())?),
        (header::CONTENT_TYPE, header::HeaderValue::from_static("application/gzip")),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    let pieces = ReaderStream::new(tokio::fs::File::from_std(archive));
    Ok((headers, Body::from_stream(pieces)).into_response())
}

#[derive(Deserialize)]
struct ImportQuery {
    /// The name; that in the archive unless given.
    #[serde(default)]
    name: String,
}

/// Makes a profile from an archive, which is written to the disk as it comes.
async fn import(
    State(app): State<App>,
    Query(query): Query<ImportQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ImportedProfileView>, PageError> {
    let name = Some(query.name).filter(|name| !name.trim().is_empty());
    let name = name.as_deref().map(named).transpose()?;
    let profiles = profiles(&app);
    let run = app.data.root().run_dir();
    let received = ReceivedFile::new(&run, &headers, body, MAX_ARCHIVE).await?;
    let archive = received.ok_or_else(too_large)?;
    let imported = tokio::task::spawn_blocking(move || -> Result<_, PageError> {
        Ok(profiles.import(&archive.path(), name.as_ref())?)
    });
    let imported = imported.await.map_err(|error| PageError::internal(error.to_string()))??;
    let home = &imported.home;
    Ok(Json(ImportedProfileView {
        name: home.profile().to_string(),
        path: home.dir().display().to_string(),
        files: imported.files,
        left_out: imported.left_out,
        telling_settings: vestal_api::safety_settings(home),
    }))
}

fn too_large() -> PageError {
    let detail = format!("an archive may have at most {} MiB", MAX_ARCHIVE >> 20);
    PageError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
        .advise("no profile that was exported is larger; was another file chosen?")
}

impl From<ProfileError> for PageError {
    fn from(error: ProfileError) -> Self {
        let detail = error.to_string();
        match error {
            ProfileError::Io { .. } => Self::unavailable(detail),
            _ => Self::conflict(detail),
        }
    }
}

impl From<ProfileSandboxesError> for PageError {
    fn from(error: ProfileSandboxesError) -> Self {
        Self::conflict(error.to_string())
            .advise("start the engine of its sandboxes, or see what works here on the page Doctor")
    }
}
