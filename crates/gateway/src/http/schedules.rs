//! `/api/jobs`: the schedules of the profile.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{delete, get, patch, post};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use vestal_api::{ScheduleRequest, ScheduleRunView, ScheduleView};
use vestal_runtime::{ProfileSchedules, ScheduleError};
use vestal_schedules::{Error, Schedule, ScheduleId, ScheduleStore, store_path};

use super::ApiState;
use super::error::ApiError;
use super::openapi::{DeletedView, DescribedRoutes, RouteOperation};
use super::shapes::{ScheduleList, ScheduleRunList};

/// The most runs that one answer lists.
const MAX_LISTED: u32 = 200;

/// Runs that are listed unless asked otherwise.
const LISTED: u32 = 20;

/// Adds the routes.
pub(super) fn routes(routes: DescribedRoutes) -> DescribedRoutes {
    let operation = |summary| RouteOperation::new("jobs", summary);
    routes
        .get(
            "/api/jobs",
            get(list),
            operation("Lists schedules, what is due next first").answers::<ScheduleList>(),
        )
        .post(
            "/api/jobs",
            post(create),
            operation("Makes a schedule")
                .takes::<ScheduleRequest>()
                .answers::<ScheduleView>()
                .status("201"),
        )
        .get("/api/jobs/{id}", get(show), operation("Shows a schedule").answers::<ScheduleView>())
        .patch(
            "/api/jobs/{id}",
            patch(edit),
            operation("Changes a schedule").takes::<ScheduleRequest>().answers::<ScheduleView>(),
        )
        .delete(
            "/api/jobs/{id}",
            delete(remove),
            operation("Deletes a schedule with its runs; refused while one is in progress")
                .answers::<DeletedView>(),
        )
        .post(
            "/api/jobs/{id}/pause",
            post(pause),
            operation("Pauses a schedule").answers::<ScheduleView>(),
        )
        .post(
            "/api/jobs/{id}/resume",
            post(resume),
            operation("Lets a paused schedule go on").answers::<ScheduleView>(),
        )
        .post(
            "/api/jobs/{id}/run",
            post(run),
            operation("Asks for a run now, which this gateway begins")
                .answers::<ScheduleRunView>()
                .status("202"),
        )
        .get(
            "/api/jobs/{id}/runs",
            get(runs),
            operation("Lists runs of a schedule, the latest first")
                .query::<RunsQuery>()
                .answers::<ScheduleRunList>(),
        )
}

type ScheduleAnswer = Result<Json<Value>, ApiError>;

/// Opens the schedules for one request. They are a file that other processes change as well; a
/// request is rare, and holds nothing open after it.
async fn open(app: &ApiState) -> Result<ScheduleStore, ApiError> {
    let home = app.turns.runtime().settings().home().dir();
    Ok(ScheduleStore::open(store_path(&home)).await?)
}

/// Reads an id. A program names it in full: no prefix and no name will do.
fn schedule_id(text: &str) -> Result<ScheduleId, ApiError> {
    text.parse().map_err(|error| ApiError::from(Error::InvalidId(error)))
}

fn view(schedule: &Schedule) -> Json<Value> {
    Json(json!(ScheduleView::new(schedule, Timestamp::now())))
}

/// Says which member of a request is wrong.
fn refused(error: ScheduleError) -> ApiError {
    match error {
        ScheduleError::Schedule(error) => error.into(),
        ScheduleError::Skill(error) => ApiError::invalid("skills", error.to_string()),
        ScheduleError::Conversation(error) => ApiError::invalid("deliver", error.to_string()),
    }
}

/// `GET /api/jobs`: what is due next first.
async fn list(State(app): State<ApiState>) -> ScheduleAnswer {
    let store = open(&app).await?;
    let now = Timestamp::now();
    let (mut data, mut unreadable) = (Vec::new(), Vec::new());
    for schedule in store.list().await? {
        match schedule {
            Ok(schedule) => data.push(ScheduleView::new(&schedule, now)),
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    Ok(Json(json!({ "object": "list", "data": data, "unreadable": unreadable })))
}

/// `POST /api/jobs`.
async fn create(
    State(app): State<ApiState>,
    request: Result<Json<ScheduleRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let Json(request) = request?;
    let now = Timestamp::now();
    let store = open(&app).await?;
    let schedules = ProfileSchedules::new(app.turns.runtime().settings());
    let created = schedules.create(&store, request, now).await.map_err(refused)?;
    Ok((StatusCode::CREATED, view(&created)))
}

/// `GET /api/jobs/{id}`.
async fn show(State(app): State<ApiState>, Path(id): Path<String>) -> ScheduleAnswer {
    Ok(view(&open(&app).await?.get(&schedule_id(&id)?).await?))
}

/// `PATCH /api/jobs/{id}`.
async fn edit(
    State(app): State<ApiState>,
    Path(id): Path<String>,
    request: Result<Json<ScheduleRequest>, JsonRejection>,
) -> ScheduleAnswer {
    let (id, Json(request)) = (schedule_id(&id)?, request?);
    let now = Timestamp::now();
    let store = open(&app).await?;
    let schedules = ProfileSchedules::new(app.turns.runtime().settings());
    Ok(view(&schedules.edit(&store, &id, request, now).await.map_err(refused)?))
}

/// `DELETE /api/jobs/{id}`.
async fn remove(State(app): State<ApiState>, Path(id): Path<String>) -> ScheduleAnswer {
    let removed = open(&app).await?.remove(&schedule_id(&id)?).await?;
    Ok(Json(json!({ "id": removed.id, "object": "job.deleted", "deleted": true })))
}

/// `POST /api/jobs/{id}/pause`.
async fn pause(State(app): State<ApiState>, Path(id): Path<String>) -> ScheduleAnswer {
    Ok(view(&open(&app).await?.pause(&schedule_id(&id)?, Timestamp::now()).await?))
}

/// `POST /api/jobs/{id}/resume`.
async fn resume(State(app): State<ApiState>, Path(id): Path<String>) -> ScheduleAnswer {
    Ok(view(&open(&app).await?.resume(&schedule_id(&id)?, Timestamp::now()).await?))
}

/// `POST /api/jobs/{id}/run`: asks for a run now, which this gateway begins.
async fn run(
    State(app): State<ApiState>,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let id = schedule_id(&id)?;
    let asked = open(&app).await?.request(&id, Timestamp::now()).await?;
    Ok((StatusCode::ACCEPTED, Json(json!(ScheduleRunView::from(&asked)))))
}

/// How many runs are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunsQuery {
    /// At most so many.
    limit: Option<u32>,
}

/// `GET /api/jobs/{id}/runs`: the latest first.
async fn runs(
    State(app): State<ApiState>,
    Path(id): Path<String>,
    query: Result<Query<RunsQuery>, QueryRejection>,
) -> ScheduleAnswer {
    let Query(query) = query.map_err(|error| ApiError::of_query(&error))?;
    let id = schedule_id(&id)?;
    let store = open(&app).await?;
    // Without this, one that is not there would look like one that never ran.
    store.get(&id).await?;
    let limit = query.limit.unwrap_or(LISTED).min(MAX_LISTED);
    let runs = store.runs(Some(&id), limit).await?;
    let runs: Vec<ScheduleRunView> = runs.iter().map(Into::into).collect();
    Ok(Json(json!({ "object": "list", "data": runs })))
}
