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
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::{AnswerEnding, DeliveryStep, plan};
    use crate::frames::AnswerFrame;

    /// Returns a message of two deltas between an opening and an end.
    fn frames() -> Vec<AnswerFrame> {
        [("open", false), ("a", true), ("between", false), ("b", true), ("end", false)]
            .map(|(text, delta)| AnswerFrame { bytes: Bytes::from(text), delta })
            .to_vec()
    }

    /// Returns the steps in words.
    fn words(holds: &[usize], ending: AnswerEnding) -> String {
        let steps = plan(frames(), None, holds, ending);
        let words: Vec<String> = steps
            .into_iter()
            .map(|step| match step {
                DeliveryStep::Send(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                other => format!("{other:?}").to_uppercase(),
            })
            .collect();
        words.join(" ")
    }

    #[test]
    fn a_whole_answer_is_all_frames_in_order() {
        assert_eq!(words(&[], AnswerEnding::Whole), "open a between b end");
    }

    #[test]
    fn holds_come_after_their_delta_and_before_anything_else() {
        assert_eq!(words(&[0], AnswerEnding::Whole), "HOLD open a between b end");
        assert_eq!(words(&[1, 1, 2], AnswerEnding::Whole), "open a HOLD HOLD between b HOLD end");
        assert_eq!(words(&[usize::MAX], AnswerEnding::Whole), "open a between b HOLD end");
    }

    #[test]
    fn an_ending_replaces_everything_after_its_delta() {
        assert_eq!(words(&[], AnswerEnding::Cut(0)), "CUT");
        assert_eq!(words(&[1], AnswerEnding::Cut(1)), "open a HOLD CUT");
        assert_eq!(words(&[], AnswerEnding::Cut(9)), "open a between b CUT");
        assert_eq!(words(&[], AnswerEnding::Stall(1)), "open a STALL");
        assert_eq!(words(&[], AnswerEnding::Error(1, Bytes::from("error"))), "open a error");
    }

    #[test]
    fn a_pace_is_kept_before_each_delta() {
        let pace = Duration::from_millis(5);
        let steps = plan(frames(), Some(pace), &[], AnswerEnding::Whole);
        let waits: Vec<usize> = steps
            .iter()
            .enumerate()
            .filter(|(_, step)| **step == DeliveryStep::Wait(pace))
            .map(|(at, _)| at)
            .collect();
        assert_eq!(waits, [1, 4]);
    }
}
