//! `GET /api/notices`: tells a browser when something comes up that needs a person.
//!
//! It is the only stream that a hidden page keeps, and only if its person has asked for notifications.
//! So it says nothing but what is new, and nothing of what was there when it began.

use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::stream;
use tokio::sync::watch::Receiver;
use vestal_api::AgentRunQuestionKind;
use vestal_api::dashboard::{AskingTurn, NoticeView};
use vestal_board::Status;

use super::now;
use crate::app::{App, AppState};
use crate::events::{self, KEEP_ALIVE};
use crate::gate::{Caller, DeclaredRoute, Right, Route};
use crate::watch::{Numbers, Topic};

/// The shortest time between two looks at what needs a person.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![Route::get("/api/notices", follow).needs(Right::Viewer)]
}

async fn follow(State(app): State<App>, caller: Caller) -> Response {
    let mut numbers = app.watch.numbers();
    let seen = *numbers.borrow_and_update();
    let known = notices(&app).await.into_iter().map(|notice| notice.id).collect();
    let state = NoticeStream { app, caller, numbers, seen, known, pending: VecDeque::new() };
    events::response(stream::unfold(state, NoticeStream::next))
}

/// Returns all that needs a person now.
async fn notices(app: &AppState) -> Vec<NoticeView> {
    let tasks = now::tasks(app, None).await;
    let of_tasks = tasks.needs_you.into_iter().map(|one| {
        let task = one.task;
        let asked = task.attention.or(task.block_reason);
        let (detail, review) = match task.status {
            Status::Review => ("its work waits to be looked at".to_owned(), "/review"),
            _ => (asked.unwrap_or_else(|| format!("it is {}", task.status)), ""),
        };
        NoticeView {
            // What is asked again is news again.
            id: format!("task/{}/{}/{}/{detail}", one.board, task.id, task.status),
            title: task.title,
            detail,
            page: format!("/board/{}/{}{review}", one.board, task.id),
        }
    });
    let asked = now::questions(app, &app.data.profiles()).await;
    let questions = asked.questions.into_iter().map(|one| {
        let detail = match one.question.kind {
            AgentRunQuestionKind::Approval { action, .. } => format!("May it do this? {action}"),
            AgentRunQuestionKind::Clarification { question, .. } => question,
        };
        NoticeView {
            id: format!("question/{}/{}/{}", one.profile, one.session, one.question.id),
            title: one.title.unwrap_or_else(|| match one.asked_by {
                AskingTurn::Chat => "A conversation".to_owned(),
                AskingTurn::GatewayRun => "A run of the API".to_owned(),
                AskingTurn::GatewaySession => "A conversation over the API".to_owned(),
            }),
            detail,
            page: "/".to_owned(),
        }
    });
    of_tasks.chain(questions).collect()
}

struct NoticeStream {
    app: App,
    caller: Caller,
    numbers: Receiver<Numbers>,
    /// The changes that were looked at.
    seen: Numbers,
    /// What was there or told before, as long as it is there.
    known: HashSet<String>,
    pending: VecDeque<NoticeView>,
}

impl NoticeStream {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(notice) = self.pending.pop_front() {
                let data = serde_json::to_string(&notice).unwrap_or_default();
                return Some((Ok(Event::default().event("notice").data(data)), self));
            }
            let waited = tokio::select! {
                () = self.app.stop.cancelled() => return None,
                waited = tokio::time::timeout(KEEP_ALIVE, self.numbers.changed()) => waited,
            };
            // A session that has ended hears nothing more.
            if !self.app.gate.is_still_in(&self.caller).await {
                return None;
            }
            match waited {
                Err(_) => return Some((Ok(Event::default().comment("")), self)),
                Ok(Err(_)) => return None,
                Ok(Ok(())) => {}
            }
            let now = *self.numbers.borrow_and_update();
            let seen = std::mem::replace(&mut self.seen, now);
            let is_news = |topic: Topic| now[topic as usize] != seen[topic as usize];
            // A gateway whose turn asks something says so in its state.
            if ![Topic::Board, Topic::Conversations, Topic::Gateways].into_iter().any(is_news) {
                continue;
            }
            let found = notices(&self.app).await;
            let ids = found.iter().map(|notice| notice.id.clone()).collect();
            let known = std::mem::replace(&mut self.known, ids);
            self.pending.extend(found.into_iter().filter(|notice| !known.contains(&notice.id)));
            tokio::time::sleep(PAUSE).await;
        }
    }
}
