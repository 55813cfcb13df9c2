//! What pages ask for: each route is a call of the library that the command line makes, too.

mod board;
mod chat;
mod conversations;
mod jobs;
mod now;
mod operations;
mod sandboxes;

use axum::http::StatusCode;
use serde::Deserialize;

pub(crate) use chat::Chats;

use crate::app::App;
use crate::error::PageError;
use crate::gate::DeclaredRoute;

/// All routes of pages.
pub(crate) fn routes() -> Vec<DeclaredRoute<App>> {
    let parts = [
        now::routes(),
        sandboxes::routes(),
        jobs::routes(),
        board::routes(),
        conversations::routes(),
        chat::routes(),
        operations::routes(),
    ];
    parts.into_iter().flatten().collect()
}

/// Which profile; all unless given.
#[derive(Debug, Deserialize)]
struct ProfileQuery {
    profile: Option<String>,
}

/// What is wrong with a query or a body, in the words of its reader.
fn bad_request(status: StatusCode, detail: String) -> PageError {
    PageError::new(status, "invalid", detail)
}
