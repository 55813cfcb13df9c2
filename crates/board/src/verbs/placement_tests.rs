use std::time::Duration;

use super::*;
use crate::run::Role;
use crate::testing::{TestBoard, profile};
use crate::verbs::{Claim, Initial, NewTask};

fn person() -> Authority {
    Authority::Person("user".to_owned())
}

fn to(from: Status, to: Status, words: &str) -> Placement {
    Placement { from, to, words: words.to_owned(), at: None, force: false }
}

/// Makes a task of a status.
async fn task(board: &Board, status: Status) -> TaskId {
    let by = person();
    let initial = if status == Status::Triage { Initial::Triage } else { Initial::Queue };
    let mut parents = Vec::new();
    if status == Status::Todo {
        let parent = NewTask { title: "first".to_owned(), ..NewTask::default() };
        parents.push(board.create(&by, parent).await.unwrap().task.id);
    }
    let assignee = Some(profile("ada"));
    let new = NewTask { title: "one".to_owned(), initial, parents, assignee, ..NewTask::default() };
    let id = board.create(&by, new).await.unwrap().task.id;
    let claim =
        Claim { lease: Duration::from_mins(10), profile: None, role: Role::Work, host: None };
    match status {
        Status::Triage | Status::Todo | Status::Ready => {}
        Status::Running => drop(board.claim(&by, &id, claim).await.unwrap()),
        Status::Scheduled => drop(board.schedule(&by, &id, "later", None).await.unwrap()),
        Status::Blocked => {
            let block = Block { reason: "why".to_owned(), kind: None };
            board.block(&by, &id, block).await.unwrap();
        }
        Status::Review => drop(board.submit(&by, &id, TaskCompletion::default()).await.unwrap()),
        Status::Done => drop(board.complete(&by, &id, TaskCompletion::default()).await.unwrap()),
        Status::Archived => drop(board.archive(&by, &id).await.unwrap()),
    }
    assert_eq!(board.get(&id).await.unwrap().status, status);
    id
}

#[tokio::test]
async fn every_way_leads_where_it_says_and_there_is_no_other() {
    let board = TestBoard::new(tempfile::tempdir().unwrap()).await.unwrap();
    for from in Status::ALL.iter().copied() {
        for target in Status::ALL.iter().copied() {
            let id = task(&board, from).await;
            let known = ways(from).iter().any(|way| way.to == target);
            // One that waits for others is made ready only by force.
            let force = from == Status::Todo;
            let placement = Placement { force, ..to(from, target, "because") };
            let moved = board.place(&person(), &id, placement).await;
            match (known, moved) {
                (true, Ok(moved)) => assert_eq!(moved.task.status, target, "{from} → {target}"),
                (false, Err(Error::Refused(BoardRefusal::Status { .. }))) => {}
                (_, other) => panic!("{from} → {target}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_task_that_has_moved_meanwhile_is_left_alone() {
    let board = TestBoard::new(tempfile::tempdir().unwrap()).await.unwrap();
    let id = task(&board, Status::Running).await;
    let refused = board.place(&person(), &id, to(Status::Ready, Status::Done, "")).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert_eq!(board.get(&id).await.unwrap().status, Status::Running);
}

#[tokio::test]
async fn a_move_that_needs_words_is_not_made_without() {
    let board = TestBoard::new(tempfile::tempdir().unwrap()).await.unwrap();
    let id = task(&board, Status::Review).await;
    let refused = board.place(&person(), &id, to(Status::Review, Status::Ready, " ")).await;
    let words = refused.unwrap_err().to_string();
    assert_eq!(words, "the reason to request changes is missing");
    assert_eq!(board.get(&id).await.unwrap().status, Status::Review);
}
