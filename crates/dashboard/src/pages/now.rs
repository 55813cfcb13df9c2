//! Now: what needs a person and what runs, of all profiles.

use axum::Json;
use axum::extract::{Query, State};
use vestal_api::dashboard::{HomeView, NowView, TroubleView};
use vestal_api::{BoardTaskView, SandboxState, SandboxView};
use vestal_board::Status;
use vestal_board::store::{Order, TaskQuery};

use super::ProfileQuery;
use super::sandboxes;
use crate::app::{App, AppState};
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

/// Tasks of each kind that are shown.
const SHOWN: u32 = 50;

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/now", now).needs(Right::Viewer),
        Route::get("/api/home", home).needs(Right::Viewer),
    ]
}

async fn home(State(app): State<App>) -> Json<HomeView> {
    Json(HomeView {
        version: app.host.version().to_owned(),
        profiles: app.data.profiles().iter().map(ToString::to_string).collect(),
        home: app.data.root().root().to_string_lossy().into_owned(),
    })
}

async fn now(
    State(app): State<App>,
    Query(query): Query<ProfileQuery>,
) -> Result<Json<NowView>, PageError> {
    let profiles = app.data.profiles_of(query.profile.as_deref())?;
    let of_one = query.profile.filter(|name| !name.is_empty());
    let (found, tasks) =
        tokio::join!(sandboxes::list(&app, &profiles), tasks(&app, of_one.as_deref()));
    let mut view = NowView {
        needs_you: tasks.needs_you,
        needs_you_total: tasks.total,
        running_tasks: tasks.running,
        sandboxes_total: found.sandboxes.len() as u64,
        sandboxes_running: 0,
        sandboxes: Vec::new(),
        troubles: tasks.troubles,
    };
    view.troubles.extend(found.troubles);
    for sandbox in found.sandboxes {
        view.sandboxes_running += u64::from(sandbox.state == SandboxState::Running);
        if is_of_interest(&sandbox) {
            view.sandboxes.push(sandbox);
        }
    }
    Ok(Json(view))
}

/// Reports whether a sandbox is worth a line on the first page.
fn is_of_interest(sandbox: &SandboxView) -> bool {
    let is_silent = matches!(sandbox.state, SandboxState::Unresponsive | SandboxState::Unknown);
    is_silent || sandbox.jobs_running > 0 || !sandbox.drift.is_empty() || sandbox.trouble.is_some()
}

#[derive(Default)]
struct Tasks {
    needs_you: Vec<BoardTaskView>,
    total: u64,
    running: Vec<BoardTaskView>,
    troubles: Vec<TroubleView>,
}

/// Reads all boards. One that cannot be read keeps no other from being shown.
async fn tasks(app: &AppState, profile: Option<&str>) -> Tasks {
    let mut found = Tasks::default();
    let boards = match app.data.boards() {
        Ok(boards) => boards,
        Err(error) => {
            found.troubles.push(TroubleView::new("boards", &error.detail()));
            return found;
        }
    };
    let names = match boards.names() {
        Ok(names) => names,
        Err(error) => {
            found.troubles.push(TroubleView::new("boards", &error));
            return found;
        }
    };
    let assignee = profile.map(|name| Some(name.to_owned()));
    for slug in names {
        let of_board = async {
            let Some(board) = app.data.board(&boards, &slug).await? else { return Ok(()) };
            let mut read = board.read().await?;
            let base = TaskQuery {
                assignee: assignee.clone(),
                limit: Some(SHOWN),
                order: Order::Board,
                ..TaskQuery::default()
            };
            let attention = TaskQuery { needs_attention: true, ..base.clone() };
            let review = TaskQuery { statuses: vec![Status::Review], ..base.clone() };
            let running = TaskQuery { statuses: vec![Status::Running], ..base };
            let view = |task: &vestal_board::Task| BoardTaskView::new(&slug, task);
            let needed = read.list(&attention).await?;
            // Work that a person has to look at; a reviewer's own is looked at by itself.
            let reviews = read.list(&review).await?;
            let is_new = |task: &&vestal_board::Task| {
                task.reviewer.is_none() && needed.iter().all(|other| other.id != task.id)
            };
            let reviews: Vec<_> = reviews.iter().filter(is_new).map(view).collect();
            found.total += read.count(&attention).await? + reviews.len() as u64;
            found.needs_you.extend(needed.iter().map(view));
            found.needs_you.extend(reviews);
            found.running.extend(read.list(&running).await?.iter().map(view));
            Ok::<_, PageError>(())
        };
        let read = of_board.await;
        if let Err(error) = read {
            found.troubles.push(
                TroubleView::new(format!("board {slug}"), &error.detail())
                    .advise("vestal kanban boards list says more"),
            );
        }
    }
    found
}
