//! `GET /api/events`: tells a page which topics have changed, as server-sent events with cursors.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, stream};
use serde::Deserialize;
use serde_json::json;

use crate::app::App;
use crate::gate::{Caller, DeclaredRoute, Right, Route};
use crate::watch::{Numbers, Topic};

/// How often a silent stream shows that it is alive, and looks whether its session still counts.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(crate) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![Route::get("/api/events", events).needs(Right::Viewer)]
}

#[derive(Debug, Deserialize)]
pub(crate) struct TopicsQuery {
    /// Topics, separated by commas; all unless given.
    #[serde(default)]
    topics: String,
    /// The id of the last event that the page has, where it begins a stream anew.
    #[serde(default)]
    cursor: String,
}

/// Where a page is: the numbers of the topics that it has seen, and of which process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EventCursor {
    epoch: u64,
    numbers: Numbers,
}

impl EventCursor {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('.').map(str::parse);
        let epoch = parts.next()?.ok()?;
        let mut numbers = Numbers::default();
        for number in &mut numbers {
            *number = parts.next()?.ok()?;
        }
        parts.next().is_none().then_some(Self { epoch, numbers })
    }

    fn id(self) -> String {
        let numbers = self.numbers.iter().map(|number| format!(".{number}"));
        format!("{}{}", self.epoch, numbers.collect::<String>())
    }
}

async fn events(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Query(query): Query<TopicsQuery>,
) -> Response {
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let last = EventCursor::parse(last.unwrap_or(&query.cursor));
    let wanted: Vec<Topic> = if query.topics.is_empty() {
        Topic::ALL.to_vec()
    } else {
        query.topics.split(',').filter_map(Topic::of_word).collect()
    };
    let mut numbers = app.watch.numbers();
    let now = EventCursor { epoch: app.watch.epoch(), numbers: *numbers.borrow_and_update() };
    let mut pending = VecDeque::new();
    let hello = json!({ "cursor": now.id() });
    pending.push_back(Event::default().event("hello").id(now.id()).data(hello.to_string()));
    if let Some(last) = last {
        // Of another process nobody can tell what was missed: everything may have been.
        let missed: Vec<Topic> = wanted
            .iter()
            .copied()
            .filter(|topic| {
                let at = *topic as usize;
                last.epoch != now.epoch || last.numbers[at] != now.numbers[at]
            })
            .collect();
        pending.extend(changed(&missed, now));
    }
    let state = ChangeStream { app, caller, numbers, seen: now, wanted, pending };
    response(stream::unfold(state, ChangeStream::next))
}

fn changed(topics: &[Topic], cursor: EventCursor) -> Option<Event> {
    if topics.is_empty() {
        return None;
    }
    let words: Vec<&str> = topics.iter().map(|topic| topic.word()).collect();
    let data = json!({ "topics": words });
    Some(Event::default().event("changed").id(cursor.id()).data(data.to_string()))
}

struct ChangeStream {
    app: App,
    caller: Caller,
    numbers: tokio::sync::watch::Receiver<Numbers>,
    seen: EventCursor,
    wanted: Vec<Topic>,
    pending: VecDeque<Event>,
}

impl ChangeStream {
    /// Returns the next event; nothing ends the stream.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some((Ok(event), self));
            }
            let waited = tokio::select! {
                () = self.app.stop.cancelled() => return None,
                waited = tokio::time::timeout(KEEP_ALIVE, self.numbers.changed()) => waited,
            };
            // A session that has ended gets no further news.
            if !self.app.gate.is_still_in(&self.caller).await {
                return None;
            }
            match waited {
                Err(_) => self.pending.push_back(Event::default().comment("")),
                Ok(Err(_)) => return None,
                Ok(Ok(())) => {
                    let numbers = *self.numbers.borrow_and_update();
                    let is_news = |topic: &Topic| {
                        numbers[*topic as usize] != self.seen.numbers[*topic as usize]
                    };
                    let topics: Vec<Topic> = self.wanted.iter().copied().filter(is_news).collect();
                    self.seen.numbers = numbers;
                    self.pending.extend(changed(&topics, self.seen));
                }
            }
        }
    }
}

/// Returns the response that sends events.
pub(crate) fn response(
    events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
) -> Response {
    Sse::new(events).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_nothing_else_is() {
        let mut numbers = Numbers::default();
        (1..).zip(&mut numbers).for_each(|(number, own)| *own = number);
        let cursor = EventCursor { epoch: 7, numbers };
        let written = cursor.id();
        assert_eq!(EventCursor::parse(&cursor.id()), Some(cursor));
        let (shorter, _) = written.rsplit_once('.').unwrap();
        let others = [format!("{written}.7"), format!("x{written}"), format!("{shorter}.-1")];
        for bad in others.iter().map(String::as_str).chain(["", "7", shorter]) {
            assert_eq!(EventCursor::parse(bad), None, "{bad}");
        }
    }
}
