//! Schedules: listed with who runs them, made, changed, paused, run and removed; and their runs.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use jiff::Timestamp;
use vestal_api::dashboard::{OfProfileView, ScheduleDetailsView, SchedulesPageView, TroubleView};
use vestal_api::{ScheduleRequest, ScheduleRunView, ScheduleView};
use vestal_config::Settings;
use vestal_runtime::{ProfileSchedules, ScheduleError};
use vestal_schedules::{ScheduleId, ScheduleStore};

use super::{ProfileQuery, bad_request};
use crate::app::{App, AppState};
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

/// Runs of a schedule that are shown.
const RUNS: u32 = 50;

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/schedules", list).needs(Right::Viewer),
        Route::get("/api/schedules/{profile}/{id}", show).needs(Right::Viewer),
        Route::post("/api/schedules/{profile}", create).needs(Right::Operator),
        Route::post("/api/schedules/{profile}/{id}/edit", edit).needs(Right::Operator),
        Route::post("/api/schedules/{profile}/{id}/pause", pause).needs(Right::Operator),
        Route::post("/api/schedules/{profile}/{id}/resume", resume).needs(Right::Operator),
        Route::post("/api/schedules/{profile}/{id}/run", run).needs(Right::Operator),
        Route::post("/api/schedules/{profile}/{id}/remove", remove).needs(Right::Operator),
    ]
}

async fn list(
    State(app): State<App>,
    Query(query): Query<ProfileQuery>,
) -> Result<Json<SchedulesPageView>, PageError> {
    let now = Timestamp::now();
    let mut page = SchedulesPageView::default();
    for profile in app.data.profiles_of(query.profile.as_deref())? {
        let of_one = async {
            let Some(store) = app.data.schedules(&profile).await? else { return Ok(Vec::new()) };
            Ok::<_, PageError>(store.list().await?)
        };
        let trouble = |detail: &dyn std::fmt::Display| {
            TroubleView::new(format!("schedules of profile {profile}"), detail)
        };
        let found = match of_one.await {
            Ok(found) => found,
            Err(error) => {
                page.troubles.push(trouble(&error.detail()));
                continue;
            }
        };
        let count = page.schedules.len();
        for schedule in found {
            match schedule {
                Ok(schedule) => page.schedules.push(OfProfileView {
                    profile: profile.to_string(),
                    view: ScheduleView::new(&schedule, now),
                }),
                Err(error) => page.troubles.push(trouble(&error)),
            }
        }
        // A profile without schedules needs no process that runs them.
        if page.schedules.len() > count {
            let runner = app.host.schedules_runner(&profile).await;
            page.runners.push(OfProfileView { profile: profile.to_string(), view: runner });
        }
    }
    Ok(Json(page))
}

/// A schedule that a path names.
struct Found {
    settings: Arc<Settings>,
    store: ScheduleStore,
    id: ScheduleId,
}

impl Found {
    async fn new(app: &AppState, profile: &str, id: &str) -> Result<Self, PageError> {
        let home = app.data.profile(profile)?;
        let settings = Arc::new(app.data.settings(home.profile()));
        let absent = || PageError::not_found(format!("there is no schedule {id}"));
        let store = app.data.schedules(home.profile()).await?.ok_or_else(absent)?;
        let id = store.find(id).await?;
        Ok(Self { settings, store, id })
    }
}

type SchedulePath = Path<(String, String)>;

async fn show(
    State(app): State<App>,
    Path((profile, id)): SchedulePath,
) -> Result<Json<ScheduleDetailsView>, PageError> {
    let Found { store, id, .. } = Found::new(&app, &profile, &id).await?;
    let schedule = store.get(&id).await?;
    let runs = store.runs(Some(&id), RUNS).await?;
    let home = app.data.profile(&profile)?;
    Ok(Json(ScheduleDetailsView {
        schedule: ScheduleView::new(&schedule, Timestamp::now()),
        runs: runs.iter().map(ScheduleRunView::from).collect(),
        runner: app.host.schedules_runner(home.profile()).await,
    }))
}

type ScheduleBody = Result<Json<ScheduleRequest>, JsonRejection>;

fn asked(body: ScheduleBody) -> Result<ScheduleRequest, PageError> {
    let Json(request) =
        body.map_err(|rejection| bad_request(rejection.status(), rejection.body_text()))?;
    Ok(request)
}

async fn create(
    State(app): State<App>,
    Path(profile): Path<String>,
    body: ScheduleBody,
) -> Result<Json<ScheduleView>, PageError> {
    let home = app.data.profile(&profile)?;
    let request = asked(body)?;
    let schedules = ProfileSchedules::new(&Arc::new(app.data.settings(home.profile())));
    let store = app.data.schedules_to_write(home.profile()).await?;
    let now = Timestamp::now();
    let created = schedules.create(&store, request, now).await?;
    Ok(Json(ScheduleView::new(&created, now)))
}

async fn edit(
    State(app): State<App>,
    Path((profile, id)): SchedulePath,
    body: ScheduleBody,
) -> Result<Json<ScheduleView>, PageError> {
    let request = asked(body)?;
    if request == ScheduleRequest::default() {
        return Err(PageError::invalid("nothing to change was named"));
    }
    let Found { settings, store, id } = Found::new(&app, &profile, &id).await?;
    let now = Timestamp::now();
    let edited = ProfileSchedules::new(&settings).edit(&store, &id, request, now).await?;
    Ok(Json(ScheduleView::new(&edited, now)))
}

async fn pause(
    State(app): State<App>,
    Path((profile, id)): SchedulePath,
) -> Result<Json<ScheduleView>, PageError> {
    let Found { store, id, .. } = Found::new(&app, &profile, &id).await?;
    let now = Timestamp::now();
    Ok(Json(ScheduleView::new(&store.pause(&id, now).await?, now)))
}

async fn resume(
    State(app): State<App>,
    Path((profile, id)): SchedulePath,
) -> Result<Json<ScheduleView>, PageError> {
    let Found { store, id, .. } = Found::new(&app, &profile, &id).await?;
    let now = Timestamp::now();
    Ok(Json(ScheduleView::new(&store.resume(&id, now).await?, now)))
}

/// Has the gateway run it now. Without one nobody would.
async fn run(
    State(app): State<App>,
    Path((profile, id)): SchedulePath,
) -> Result<Json<ScheduleRunView>, PageError> {
    let Found { store, id, .. } = Found::new(&app, &profile, &id).await?;
    let home = app.data.profile(&profile)?;
    if let Some(reason) = app.host.schedules_runner(home.profile()).await.reason {
        return Err(PageError::conflict("no gateway is running").advise(reason));
    }
    let asked = store.request(&id, Timestamp::now()).await?;
    Ok(Json(ScheduleRunView::from(&asked)))
}

/// Removes it with the records of its runs; their conversations stay.
async fn remove(
    State(app): State<App>,
    Path((profile, id)): SchedulePath,
) -> Result<Json<ScheduleView>, PageError> {
    let Found { store, id, .. } = Found::new(&app, &profile, &id).await?;
    Ok(Json(ScheduleView::new(&store.remove(&id).await?, Timestamp::now())))
}

impl From<vestal_schedules::Error> for PageError {
    fn from(error: vestal_schedules::Error) -> Self {
        use vestal_schedules::Error;
        let detail = error.to_string();
        match error {
            Error::NotFound { .. } => Self::not_found(detail),
            Error::Invalid { .. }
            | Error::Timing(_)
            | Error::Zone(_)
            | Error::Never { .. }
            | Error::InvalidId(_) => Self::invalid(detail),
            _ => Self::conflict(detail),
        }
    }
}

impl From<ScheduleError> for PageError {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Schedule(error) => error.into(),
            ScheduleError::Skill(error) => Self::invalid(error.to_string()),
            ScheduleError::Conversation(error) => error.into(),
        }
    }
}
