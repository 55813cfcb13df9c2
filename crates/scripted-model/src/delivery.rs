//! How the pieces of an answer are sent: paced, held, cut short or never ended.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;

use crate::frames::AnswerFrame;
use crate::journal::{RequestJournal, UnfinishedAnswer};

/// One thing to do while sending an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeliveryStep {
    /// Send these bytes.
    Send(Bytes),
    /// Let so much time pass.
    Wait(Duration),
    /// Go on when the test says so.
    Hold,
    /// Close the connection in the middle of the body.
    Cut,
    /// Say nothing more until the client hangs up.
    Stall,
}

/// How an answer ends, once the shape of its API is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerEnding {
    Whole,
    Cut(usize),
    Stall(usize),
    Error(usize, Bytes),
}

impl AnswerEnding {
    fn after(&self) -> Option<usize> {
        match self {
            Self::Whole => None,
            Self::Cut(after) | Self::Stall(after) | Self::Error(after, _) => Some(*after),
        }
    }
}

/// Returns the steps that send `frames`. Places beyond the last delta are where
/// all content is out and only the end of the message is missing.
pub(crate) fn plan(
    frames: Vec<AnswerFrame>,
    pace: Option<Duration>,
    holds: &[usize],
    ending: AnswerEnding,
) -> VecDeque<DeliveryStep> {
    let total = frames.iter().filter(|frame| frame.delta).count();
    let end = ending.after().map(|after| after.min(total));
    let mut steps = VecDeque::new();
    let mut sent = 0;
    let mut frames = frames.into_iter();
    let mut here = true;
    loop {
        // A place between deltas is looked at once, when it is reached.
        if here {
            let held = holds.iter().filter(|&&hold| hold.min(total) == sent).count();
            steps.extend(std::iter::repeat_n(DeliveryStep::Hold, held));
            if end == Some(sent) {
                match ending {
                    AnswerEnding::Whole => {}
                    AnswerEnding::Cut(_) => steps.push_back(DeliveryStep::Cut),
                    AnswerEnding::Stall(_) => steps.push_back(DeliveryStep::Stall),
                    AnswerEnding::Error(_, bytes) => steps.push_back(DeliveryStep::Send(bytes)),
                }
                return steps;
            }
        }
        let Some(frame) = frames.next() else {
            return steps;
        };
        here = frame.delta;
        if frame.delta {
            sent += 1;
            steps.extend(pace.map(DeliveryStep::Wait));
        }
        steps.push_back(DeliveryStep::Send(frame.bytes));
    }
}

/// Returns the body that takes these steps one after the other.
pub(crate) fn play(
    steps: VecDeque<DeliveryStep>,
    journal: Arc<RequestJournal>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let unfinished = UnfinishedAnswer::watch(Arc::clone(&journal));
    unfold((steps, journal, unfinished), |(mut steps, journal, mut unfinished)| async move {
        loop {
            let Some(step) = steps.pop_front() else {
                unfinished.done();
                return None;
            };
            match step {
                DeliveryStep::Send(bytes) => {
                    return Some((Ok(bytes), (steps, journal, unfinished)));
                }
                DeliveryStep::Wait(time) => tokio::time::sleep(time).await,
                DeliveryStep::Hold => {
                    flushed().await;
                    journal.hold().await;
                }
                DeliveryStep::Cut => {
                    flushed().await;
                    unfinished.done();
                    let cut = io::Error::other("the script cuts the answer here");
                    return Some((Err(cut), (steps, journal, unfinished)));
                }
                DeliveryStep::Stall => std::future::pending().await,
            }
        }
    })
}

/// Lets the server write what it was given before something else happens: it
/// does so whenever a body has nothing more to give for a moment.
async fn flushed() {
    tokio::task::yield_now().await;
}

#[cfg(test)]
#[path = "delivery_tests.rs"]
mod tests;
