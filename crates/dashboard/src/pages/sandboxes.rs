//! Sandboxes: listed, shown, stopped.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use vestal_api::dashboard::{SandboxesView, TroubleView};
use vestal_api::{GuestFacts, SandboxDetailsView, SandboxView, StoppedView};
use vestal_config::ProfileName;
use vestal_sandbox::client::{CallError, Connection};
use vestal_sandbox::job::{self, JobFilter};
use vestal_sandbox::{Engine, Error, Sandbox, TaskName};

use super::ProfileQuery;
use crate::app::{App, AppState};
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

/// The newest jobs that a page shows.
const JOBS_SHOWN: u32 = 100;

/// How long a guest may take over a question about itself.
const SHORT_CALL: Duration = Duration::from_secs(10);

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/sandboxes", list_all).needs(Right::Viewer),
        Route::get("/api/sandboxes/{profile}/{task}", show).needs(Right::Viewer),
        Route::post("/api/sandboxes/{profile}/{task}/start", start).needs(Right::Operator),
        Route::post("/api/sandboxes/{profile}/{task}/stop", stop).needs(Right::Operator),
        Route::post("/api/sandboxes/{profile}/{task}/touch", touch).needs(Right::Operator),
    ]
}

/// The engine and the task that a path names.
pub(super) struct ProfileSandbox {
    pub(super) engine: Engine,
    pub(super) task: TaskName,
}

impl ProfileSandbox {
    pub(super) async fn find(app: &AppState, profile: &str, task: &str) -> Result<Self, PageError> {
        let home = app.data.profile(profile)?;
        let engine = app.data.engine(home.profile()).await?;
        let task = task
            .parse()
            .map_err(|error: vestal_sandbox::InvalidTask| PageError::invalid(error.to_string()))?;
        Ok(Self { engine, task })
    }

    /// Returns the sandbox, started if it was stopped, never made.
    pub(super) async fn started(&self) -> Result<Sandbox, PageError> {
        if let Err(error @ Error::NoSandbox { .. }) = self.engine.observe(&self.task).await {
            return Err(error.into());
        }
        Ok(self.engine.sandbox(&self.task).await?)
    }
}

async fn list_all(
    State(app): State<App>,
    Query(query): Query<ProfileQuery>,
) -> Result<Json<SandboxesView>, PageError> {
    let profiles = app.data.profiles_of(query.profile.as_deref())?;
    Ok(Json(list(&app, &profiles).await))
}

/// Lists the sandboxes of some profiles, all at the same time. One that cannot be read is said to be
/// so, and the others are listed.
pub(super) async fn list(app: &AppState, profiles: &[ProfileName]) -> SandboxesView {
    let of_one =
        |profile: ProfileName| async move { (app.data.sandboxes(&profile).await, profile) };
    let mut view = SandboxesView { sandboxes: Vec::new(), troubles: Vec::new() };
    let all = futures_util::future::join_all(profiles.iter().cloned().map(of_one)).await;
    for (listed, profile) in all {
        match listed {
            Ok(found) => view.sandboxes.extend(found.iter().map(SandboxView::from)),
            Err(error) => view.troubles.push(
                TroubleView::new(format!("profile {profile}"), &error.detail())
                    .advise(format!("vestal -p {profile} doctor says more")),
            ),
        }
    }
    view
}

async fn show(
    State(app): State<App>,
    Path((profile, task)): Path<(String, String)>,
) -> Result<Json<SandboxDetailsView>, PageError> {
    let ProfileSandbox { engine, task } = ProfileSandbox::find(&app, &profile, &task).await?;
    let found = engine.inspect(&task).await?;
    let summary = found.iter().find(|summary| !summary.owned).or_else(|| found.first());
    let absent = || PageError::from(Error::NoSandbox { task: task.to_string() });
    let summary = summary.ok_or_else(absent)?;
    // One that does not answer is shown without what it would have said.
    let guest = match engine.observe(&task).await {
        Ok(connection) => facts(&connection).await.ok(),
        Err(_) => None,
    };
    let snapshots = engine.snapshots(Some(&task)).await?;
    Ok(Json(SandboxDetailsView::new(summary, guest.as_ref(), &snapshots)))
}

async fn facts(connection: &Connection) -> Result<GuestFacts, CallError> {
    Ok(GuestFacts {
        welcome: connection.welcome().clone(),
        status: connection.status(SHORT_CALL).await?,
        stats: connection.stats(SHORT_CALL).await?,
        jobs: job::jobs(connection, JobFilter::All, JOBS_SHOWN).await?.jobs,
    })
}

/// Starts a sandbox that was stopped, with the settings of now; the answer is what there is to know.
async fn start(
    State(app): State<App>,
    Path((profile, task)): Path<(String, String)>,
) -> Result<Json<Vec<String>>, PageError> {
    let target = ProfileSandbox::find(&app, &profile, &task).await?;
    Ok(Json(target.started().await?.notice_texts()))
}

/// Begins the idle clock anew. One that does not run has none.
async fn touch(
    State(app): State<App>,
    Path((profile, task)): Path<(String, String)>,
) -> Result<Json<()>, PageError> {
    let ProfileSandbox { engine, task } = ProfileSandbox::find(&app, &profile, &task).await?;
    engine.observe(&task).await?.touch(SHORT_CALL).await?;
    Ok(Json(()))
}

/// Stops a sandbox: its jobs end, its files stay unless they are in memory. The answer says which.
async fn stop(
    State(app): State<App>,
    Path((profile, task)): Path<(String, String)>,
) -> Result<Json<StoppedView>, PageError> {
    let ProfileSandbox { engine, task } = ProfileSandbox::find(&app, &profile, &task).await?;
    let found = engine.inspect(&task).await?;
    let files_lost = found.iter().any(vestal_sandbox::SandboxSummary::has_files_in_memory);
    let was_running = engine.stop(&task).await?;
    let files_lost = files_lost && was_running;
    Ok(Json(StoppedView { task: task.to_string(), was_running, files_lost }))
}
