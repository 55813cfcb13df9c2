//! The events that a server answers with, each of bounded size.

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use reqwest::Response;
use rmcp::model::RequestId;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

use super::bounded::too_large;
use crate::lines::LONGEST;

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;

/// Why no more of a stream is read.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("an event has more than {} MiB", LONGEST >> 20)]
    TooLarge,
    #[error(transparent)]
    Lost(reqwest::Error),
}

/// Returns the events of a response. Instead of one that is too large comes an
/// answer to the request that says so: who waits would wait for ever.
pub(super) fn of(
    response: Response,
    asked: Option<RequestId>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut gauge = Gauge::default();
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(|error| Broken::Lost(error.without_url()))?;
        if gauge.takes(&chunk) { Ok(chunk) } else { Err(Broken::TooLarge) }
    });
    let events = SseStream::from_bytes_stream(bytes).boxed();
    // What comes after an error could not be understood.
    stream::unfold(Some((events, asked)), |state| async {
        let (mut events, asked) = state?;
        match (events.next().await?, asked) {
            (Err(SseError::Body(error)), Some(id)) if is_too_large(&*error) => {
                let said = serde_json::to_string(&too_large(id)).unwrap_or_default();
                Some((Ok(Sse::default().data(said)), None))
            }
            (Ok(event), asked) => Some((Ok(event), Some((events, asked)))),
            (Err(error), _) => Some((Err(error), None)),
        }
    })
    .boxed()
}

fn is_too_large(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(Broken::TooLarge))
}

/// Counts the bytes of an event, which ends with an empty line.
#[derive(Debug, Default)]
struct Gauge {
    event: usize,
    line: usize,
    after_return: bool,
}

impl Gauge {
    /// Counts bytes that have come; false, if the event is too large with them.
    fn takes(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            let was_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if was_return => {}
                b'\n' | b'\r' => {
                    self.event = if self.line == 0 { 0 } else { self.event + self.line + 1 };
                    self.line = 0;
                }
                _ => self.line += 1,
            }
            if self.event + self.line > LONGEST {
                return false;
            }
        }
        true
    }
}
