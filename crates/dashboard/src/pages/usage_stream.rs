//! What a sandbox consumes, as events while a page looks at it.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::extract::{Path, State};
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::stream;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

use super::sandboxes::ProfileSandbox;
use crate::app::App;
use crate::error::PageError;
use crate::events::{self, KEEP_ALIVE};
use crate::gate::{Caller, DeclaredRoute, Right, Route};
use crate::samples::{News, SampleWatcher};

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![Route::get("/api/sandboxes/{profile}/{task}/usage", follow).needs(Right::Viewer)]
}

async fn follow(
    State(app): State<App>,
    caller: Caller,
    Path((profile, task)): Path<(String, String)>,
) -> Result<Response, PageError> {
    let home = app.data.profile(&profile)?;
    let ProfileSandbox { engine, task } = ProfileSandbox::find(&app, &profile, &task).await?;
    let looking = app.samples.look(home.profile(), &engine, &task).await?;
    let kept = serde_json::to_string(&looking.kept).unwrap_or_default();
    let pending = VecDeque::from([Event::default().event("kept").data(kept)]);
    let state = FollowedUsage { app, caller, looking: Some(looking), pending };
    Ok(events::response(stream::unfold(state, FollowedUsage::next)))
}

struct FollowedUsage {
    app: App,
    caller: Caller,
    /// Nothing once it is over.
    looking: Option<SampleWatcher>,
    pending: VecDeque<Event>,
}

impl FollowedUsage {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some((Ok(event), self));
            }
            let looking = self.looking.as_mut()?;
            let heard = tokio::select! {
                () = self.app.stop.cancelled() => return None,
                heard = tokio::time::timeout(KEEP_ALIVE, looking.news.recv()) => heard,
            };
            // A session that has ended sees nothing more.
            if !self.app.gate.is_still_in(&self.caller).await {
                return None;
            }
            let event = match heard {
                Err(_) => Event::default().comment(""),
                Ok(Ok(News::Sample(sample))) => {
                    let data = serde_json::to_string(&sample).unwrap_or_default();
                    Event::default().event("sample").data(data)
                }
                Ok(Ok(News::Over(detail))) => {
                    self.looking = None;
                    Event::default().event("over").data(json!({ "detail": detail }).to_string())
                }
                Ok(Err(RecvError::Lagged(_))) => continue,
                Ok(Err(RecvError::Closed)) => return None,
            };
            self.pending.push_back(event);
        }
    }
}
