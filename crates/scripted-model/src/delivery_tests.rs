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
