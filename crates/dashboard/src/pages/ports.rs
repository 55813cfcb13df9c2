//! Ports that processes of a sandbox listen on.

use axum::Json;
use axum::extract::{Path, State};
use vestal_api::{PortView, PortsView, PreviewView};
use vestal_sandbox::client::CallError;
use vestal_sandbox::{Error, FaultCode, listening_ports};

use super::sandboxes::ProfileSandbox;
use crate::app::App;
use crate::error::PageError;
use crate::gate::{Caller, DeclaredRoute, Right, Route};

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/api/sandboxes/{profile}/{task}/ports", list).needs(Right::Viewer),
        Route::post("/api/sandboxes/{profile}/{task}/ports/{port}/preview", open)
            .needs(Right::Operator),
    ]
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    Path((profile, task)): Path<(String, String)>,
) -> Result<Json<PortsView>, PageError> {
    let target = ProfileSandbox::find(&app, &profile, &task).await?;
    let none = |why: &str| PortsView { ports: Vec::new(), no_preview: Some(why.to_owned()) };
    let connection = match target.engine.observe(&target.task).await {
        Ok(connection) => connection,
        Err(Error::Stopped { .. }) => return Ok(Json(none("the sandbox does not run"))),
        Err(error) => return Err(error.into()),
    };
    match listening_ports(&connection).await {
        Ok(ports) => {
            let ports = ports.iter().map(PortView::from).collect();
            Ok(Json(PortsView { ports, no_preview: app.previews.unavailable_reason(&caller) }))
        }
        Err(CallError::Fault(fault)) if fault.code == FaultCode::Unsupported => Ok(Json(none(
            "the program inside the sandbox is of an older version, which cannot tell its ports; \
             stop the sandbox and start it again",
        ))),
        Err(error) => Err(error.into()),
    }
}

/// Opens a preview of a port that a job listens on. The answer is a secret until it was opened.
async fn open(
    State(app): State<App>,
    caller: Caller,
    Path((profile, task, port)): Path<(String, String, u16)>,
) -> Result<Json<PreviewView>, PageError> {
    let home = app.data.profile(&profile)?;
    let target = ProfileSandbox::find(&app, &profile, &task).await?;
    let connection = target.engine.observe(&target.task).await?;
    let ports = listening_ports(&connection).await?;
    if ports.iter().all(|found| found.port != port) {
        return Err(PageError::not_found(format!("no job listens on port {port}")));
    }
    let url = app.previews.open(home.profile().clone(), target.task, port, caller)?;
    Ok(Json(PreviewView { url }))
}
