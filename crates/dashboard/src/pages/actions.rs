//! Long actions on sandboxes: planned, begun, and found again by any page.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use vestal_api::dashboard::TroubleView;
use vestal_api::{ActionPlanView, OperationView, OperationsView, StartedOperationView};
use vestal_operations::{
    Action, InvalidOperationId, OperationError, OperationId, OperationStore, Verb,
    free_snapshot_name, plan,
};
use vestal_sandbox::{FilesOnRemoval, InvalidSnapshotName, InvalidTask, SnapshotName, WhileBusy};

use super::sandboxes::ProfileSandbox;
use super::{ProfileQuery, bad_request};
use crate::app::App;
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

/// The longest note of a snapshot.
const MAX_NOTE: usize = 1000;

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/sandboxes/{profile}/{task}/plan", show_plan).needs(Right::Viewer),
        Route::post("/api/sandboxes/{profile}/{task}/actions", begin).needs(Right::Operator),
        Route::get("/api/operations", list).needs(Right::Viewer),
        Route::get("/api/operations/{profile}/{id}", show).needs(Right::Viewer),
        Route::post("/api/operations/{profile}/{id}/forget", forget).needs(Right::Operator),
    ]
}

/// What is to be done. Which members count depends on the verb.
#[derive(Debug, Deserialize)]
pub(super) struct ActionRequest {
    verb: Verb,
    /// The name of a snapshot; the time unless given, where one is made.
    #[serde(default)]
    snapshot: String,
    /// A line to remember it by.
    #[serde(default)]
    note: String,
    /// The task of a fork.
    #[serde(default)]
    to: String,
    /// The backend that it moves to.
    #[serde(default)]
    backend: String,
    /// Whether workspace, home and snapshots go too.
    #[serde(default)]
    files: bool,
    /// Whether running jobs are ended; else they are in the way.
    #[serde(default)]
    stop: bool,
}

impl ActionRequest {
    fn action(self) -> Result<Action, PageError> {
        let busy = if self.stop { WhileBusy::Stop } else { WhileBusy::Refuse };
        let invalid_name = |error: InvalidSnapshotName| PageError::invalid(error.to_string());
        let name = || match self.snapshot.trim() {
            "" => Err(PageError::invalid("name the snapshot")),
            name => name.parse::<SnapshotName>().map_err(invalid_name),
        };
        Ok(match self.verb {
            Verb::Snapshot => {
                let note: String = self.note.trim().chars().take(MAX_NOTE).collect();
                let note = Some(note).filter(|note| !note.is_empty());
                Action::Snapshot { name: name()?, note, busy }
            }
            Verb::RemoveSnapshot => Action::RemoveSnapshot { name: name()? },
            Verb::Restore => Action::Restore { name: name()?, busy },
            Verb::Fork => {
                let to = self.to.trim().parse();
                let to = to.map_err(|error: InvalidTask| PageError::invalid(error.to_string()))?;
                let snapshot = if self.snapshot.is_empty() { None } else { Some(name()?) };
                Action::Fork { to, snapshot, busy }
            }
            Verb::Rebuild => {
                let backend = Some(self.backend.trim().to_owned()).filter(|name| !name.is_empty());
                Action::Rebuild { backend, busy }
            }
            Verb::Remove => {
                let files = if self.files { FilesOnRemoval::Remove } else { FilesOnRemoval::Keep };
                Action::Remove { files }
            }
            Verb::Stop => Action::Stop,
            Verb::Start => Action::Start,
        })
    }
}

/// Says what an action would take away and leave, and does nothing.
async fn show_plan(
    State(app): State<App>,
    Path((profile, task)): Path<(String, String)>,
    query: Result<Query<ActionRequest>, QueryRejection>,
) -> Result<Json<ActionPlanView>, PageError> {
    let Query(mut request) =
        query.map_err(|error| bad_request(error.status(), error.body_text()))?;
    // A plan is made before the new task or snapshot has a name.
    if request.verb == Verb::Fork && request.to.is_empty() {
        "new".clone_into(&mut request.to);
    }
    if request.verb == Verb::Snapshot && request.snapshot.is_empty() {
        "new".clone_into(&mut request.snapshot);
    }
    let ProfileSandbox { engine, task } = ProfileSandbox::find(&app, &profile, &task).await?;
    let action = request.action()?;
    let parts = plan(&engine, &task, &action).await?;
    let found = engine.inspect(&task).await.unwrap_or_default();
    let jobs_running = found.iter().filter(|one| !one.owned).map(|one| one.jobs_running).sum();
    let backends = vestal_sandbox::registered_backends().map(|one| one.name.to_owned()).collect();
    Ok(Json(ActionPlanView { what: action.to_string(), parts, jobs_running, backends }))
}

/// Begins an action. It goes on when the page that asked for it is closed.
async fn begin(
    State(app): State<App>,
    Path((profile, task)): Path<(String, String)>,
    body: Result<Json<ActionRequest>, JsonRejection>,
) -> Result<Json<StartedOperationView>, PageError> {
    let Json(mut request) = body.map_err(|error| bad_request(error.status(), error.body_text()))?;
    let home = app.data.profile(&profile)?;
    let target = ProfileSandbox::find(&app, &profile, &task).await?;
    if request.verb == Verb::Snapshot && request.snapshot.trim().is_empty() {
        let name = free_snapshot_name(&target.engine, &target.task, &jiff::Zoned::now()).await?;
        request.snapshot = name.to_string();
    }
    let action = request.action()?;
    let settings = app.data.settings(home.profile());
    let id = app.actions.begin(settings, target.task, action).await?;
    Ok(Json(StartedOperationView { id: id.to_string() }))
}

async fn list(
    State(app): State<App>,
    Query(query): Query<ProfileQuery>,
) -> Result<Json<OperationsView>, PageError> {
    let mut view = OperationsView { operations: Vec::new(), troubles: Vec::new() };
    for profile in app.data.profiles_of(query.profile.as_deref())? {
        match app.data.operations(&profile).list() {
            Ok(found) => {
                let views = found.iter().map(|one| OperationView::new(profile.as_str(), one));
                view.operations.extend(views);
            }
            Err(error) => {
                let subject = format!("long actions of profile {profile}");
                view.troubles.push(TroubleView::new(subject, &error));
            }
        }
    }
    view.operations.sort_by(|a, b| b.id.cmp(&a.id));
    Ok(Json(view))
}

fn operation_id(text: &str) -> Result<OperationId, PageError> {
    text.parse().map_err(|error: InvalidOperationId| PageError::invalid(error.to_string()))
}

async fn show(
    State(app): State<App>,
    Path((profile, id)): Path<(String, String)>,
) -> Result<Json<OperationView>, PageError> {
    let home = app.data.profile(&profile)?;
    let found = OperationStore::of(&home).find(&operation_id(&id)?)?;
    Ok(Json(OperationView::new(home.profile().as_str(), &found)))
}

/// Takes an action that has ended from the list. What it did stays done.
async fn forget(
    State(app): State<App>,
    Path((profile, id)): Path<(String, String)>,
) -> Result<Json<()>, PageError> {
    let home = app.data.profile(&profile)?;
    OperationStore::of(&home).forget(&operation_id(&id)?)?;
    Ok(Json(()))
}

impl From<OperationError> for PageError {
    fn from(error: OperationError) -> Self {
        let detail = error.to_string();
        match error {
            OperationError::NotFound { .. } => Self::not_found(detail),
            _ => Self::unavailable(detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn action(request: Value) -> Result<Action, PageError> {
        serde_json::from_value::<ActionRequest>(request).unwrap().action()
    }

    #[test]
    fn a_request_becomes_the_action_that_it_names_with_the_cautious_choice_unless_asked() {
        let found = action(json!({ "verb": "remove" })).unwrap();
        assert_eq!(found, Action::Remove { files: FilesOnRemoval::Keep });
        let found = action(json!({ "verb": "restore", "snapshot": "good" })).unwrap();
        let name: SnapshotName = "good".parse().unwrap();
        assert_eq!(found, Action::Restore { name, busy: WhileBusy::Refuse });
        for bad in [
            json!({ "verb": "restore" }),
            json!({ "verb": "restore", "snapshot": "../x" }),
            json!({ "verb": "fork" }),
            json!({ "verb": "fork", "to": "a", "snapshot": "-x" }),
        ] {
            assert!(action(bad.clone()).is_err(), "{bad}");
        }
    }
}
