//! What pages ask for: each route is a call of the library that the command line makes, too.

mod actions;
mod board;
mod chat;
mod conversations;
mod extensions;
mod files;
mod jobs;
mod keys;
mod models;
mod notices;
mod now;
mod operations;
mod ports;
mod profiles;
mod received;
mod review;
mod sandboxes;
mod schedules;
mod settings;
mod task;
mod task_log;
mod terminals;
mod usage;
mod usage_stream;

use axum::http::StatusCode;
use serde::Deserialize;
use vestal_config::ProfileName;

pub(crate) use chat::Chats;
pub(crate) use received::remove_left_files;

use crate::app::App;
use crate::error::PageError;
use crate::gate::DeclaredRoute;

/// All routes of pages.
pub(crate) fn routes() -> Vec<DeclaredRoute<App>> {
    let parts = [
        now::routes(),
        notices::routes(),
        sandboxes::routes(),
        jobs::routes(),
        terminals::routes(),
        files::routes(),
        actions::routes(),
        ports::routes(),
        usage_stream::routes(),
        board::routes(),
        task::routes(),
        task_log::routes(),
        review::routes(),
        usage::routes(),
        conversations::routes(),
        chat::routes(),
        operations::routes(),
        settings::routes(),
        keys::routes(),
        schedules::routes(),
        profiles::routes(),
        models::routes(),
        extensions::routes(),
    ];
    parts.into_iter().flatten().collect()
}

/// Which profile; all unless given.
#[derive(Debug, Deserialize)]
struct ProfileQuery {
    profile: Option<String>,
}

#[derive(Debug, Deserialize)]
struct OneProfileQuery {
    /// The profile; `default` unless given.
    #[serde(default)]
    profile: String,
}

impl OneProfileQuery {
    fn name(&self, app: &App) -> Result<ProfileName, PageError> {
        match self.profile.as_str() {
            "" => Ok(ProfileName::default_profile()),
            name => Ok(app.data.profile(name)?.profile().clone()),
        }
    }
}

/// What is wrong with a query or a body, in the words of its reader.
fn bad_request(status: StatusCode, detail: String) -> PageError {
    PageError::new(status, "invalid", detail)
}
