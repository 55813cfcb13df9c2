//! Request bodies that do not arrive: a client that sends one slowly keeps a connection, and their
//! number is limited.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::time::Instant;

/// How long the next piece of a body may take.
const PIECE_WITHIN: Duration = Duration::from_secs(30);

/// How long the whole body may take of somebody who has not logged in.
pub(crate) const WHOLE_WITHIN: Duration = Duration::from_secs(30);

/// Returns a body that fails when its next piece does not come.
pub(crate) fn paced(body: Body) -> Body {
    bounded(body, || Instant::now() + PIECE_WITHIN)
}

/// Returns a body that fails when it is not there as a whole within a time.
pub(crate) fn within(body: Body, time: Duration) -> Body {
    let deadline = Instant::now() + time;
    bounded(body, move || deadline)
}

fn bounded(body: Body, deadline: impl Fn() -> Instant + Send + 'static) -> Body {
    let pieces = body.into_data_stream();
    Body::from_stream(stream::unfold(Some(pieces), move |pieces| {
        let until = deadline();
        async move { next_piece(pieces?, until).await }
    }))
}

type BodyChunk = Result<Bytes, io::Error>;

/// Returns the next piece and, unless that was the last or an error, what is behind it.
async fn next_piece<S>(mut pieces: S, until: Instant) -> Option<(BodyChunk, Option<S>)>
where
    S: Stream<Item = Result<Bytes, axum::Error>> + Unpin,
{
    match tokio::time::timeout_at(until, pieces.next()).await {
        Ok(Some(Ok(piece))) => Some((Ok(piece), Some(pieces))),
        Ok(Some(Err(error))) => Some((Err(io::Error::other(error)), None)),
        Ok(None) => None,
        Err(_) => {
            let error = io::Error::new(io::ErrorKind::TimedOut, "the body did not come in time");
            Some((Err(error), None))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    /// Sends a piece each time so much time has passed, for ever.
    fn dripping(pause: Duration) -> Body {
        Body::from_stream(stream::unfold((), move |()| async move {
            tokio::time::sleep(pause).await;
            Some((Ok::<_, io::Error>(Bytes::from_static(b"x")), ()))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_or_drips_ends_the_request() {
        let stopped = paced(dripping(Duration::from_hours(1)));
        assert!(axum::body::to_bytes(stopped, LIMIT).await.is_err());
        let dripped = within(dripping(Duration::from_secs(1)), WHOLE_WITHIN);
        let began = Instant::now();
        assert!(axum::body::to_bytes(dripped, LIMIT).await.is_err());
        assert_eq!(began.elapsed().as_secs(), WHOLE_WITHIN.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_goes_on_is_taken_however_long_it_is() {
        let slow = stream::iter(0..100).then(|_| async {
            tokio::time::sleep(PIECE_WITHIN / 2).await;
            Ok::<_, io::Error>(Bytes::from_static(b"x"))
        });
        let taken = axum::body::to_bytes(paced(Body::from_stream(slow)), LIMIT).await.unwrap();
        assert_eq!(taken.len(), 100);
    }
}
