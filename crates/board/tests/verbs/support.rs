//! Boards for tests, and tasks brought to where a test begins.

use std::time::Duration;

use vestal_board::store::TaskQuery;
use vestal_board::testing::{TestBoard, profile};
use vestal_board::{
    Authority, Block, BlockKind, Claim, Fence, HostId, HostName, Initial, NewTask, Role, RunEnd,
    RunProcess, Status, Task, TaskCompletion, TaskId,
};

pub(crate) const LEASE: Duration = Duration::from_mins(15);

pub(crate) async fn place() -> TestBoard {
    TestBoard::new(tempfile::tempdir().unwrap()).await.unwrap()
}

pub(crate) fn ann() -> Authority {
    Authority::Person("ann".to_owned())
}

pub(crate) fn dispatcher() -> Authority {
    Authority::Dispatcher(HostName::new("here"))
}

pub(crate) fn titled(title: &str) -> NewTask {
    NewTask { title: title.to_owned(), assignee: Some(profile("alpha")), ..NewTask::default() }
}

pub(crate) fn after(parents: &[&TaskId]) -> NewTask {
    let parents = parents.iter().copied().cloned().collect();
    NewTask { parents, ..titled("child") }
}

pub(crate) async fn add(place: &TestBoard, new: NewTask) -> TaskId {
    place.create(&ann(), new).await.unwrap().task.id
}

pub(crate) async fn ready(place: &TestBoard) -> TaskId {
    add(place, titled("task")).await
}

pub(crate) fn claim(place: &TestBoard, role: Role) -> Claim {
    Claim { lease: LEASE, profile: Some(profile("alpha")), role, host: Some(place.host().clone()) }
}

/// Says of all runs that ended that nothing is left of their workers.
pub(crate) async fn all_gone(place: &TestBoard) {
    let live = place.read().await.unwrap().live_runs().await.unwrap();
    for run in live.iter().filter(|run| !run.is_open()) {
        place.run_gone(run.id).await.unwrap();
    }
}

/// Has a worker claim a task that is ready or to be looked at.
pub(crate) async fn take(place: &TestBoard, id: &TaskId) -> Fence {
    all_gone(place).await;
    let role = match place.get(id).await.unwrap().status {
        Status::Review => Role::Review,
        _ => Role::Work,
    };
    let run = place.claim(&dispatcher(), id, claim(place, role)).await.unwrap();
    Fence { task: id.clone(), run: run.id, profile: profile("alpha") }
}

pub(crate) async fn running(place: &TestBoard) -> (TaskId, Fence) {
    let id = ready(place).await;
    let fence = take(place, &id).await;
    (id, fence)
}

/// A process that nothing has: no test signals it.
pub(crate) fn process(host: &HostId) -> RunProcess {
    RunProcess { host: host.clone(), pid: 4_194_303, start: 7 }
}

pub(crate) fn done(summary: &str) -> TaskCompletion {
    TaskCompletion { summary: Some(summary.to_owned()), ..TaskCompletion::default() }
}

pub(crate) fn because(kind: BlockKind) -> Block {
    Block { reason: "a reason".to_owned(), kind: Some(kind) }
}

pub(crate) fn ended(outcome: vestal_board::Outcome) -> RunEnd {
    RunEnd { outcome, error: "it went wrong".to_owned(), exit_code: Some(1) }
}

/// Brings a new task to a status, by verbs alone.
pub(crate) async fn at(place: &TestBoard, status: Status) -> TaskId {
    let ann = ann();
    match status {
        Status::Triage => add(place, NewTask { initial: Initial::Triage, ..titled("t") }).await,
        Status::Todo => {
            let parent = ready(place).await;
            add(place, after(&[&parent])).await
        }
        Status::Scheduled => {
            let id = ready(place).await;
            place.schedule(&ann, &id, "later", None).await.unwrap();
            id
        }
        Status::Ready => ready(place).await,
        Status::Running => running(place).await.0,
        Status::Blocked => {
            let id = ready(place).await;
            place.block(&ann, &id, because(BlockKind::Capability)).await.unwrap();
            id
        }
        Status::Review => {
            let id = ready(place).await;
            place.submit(&ann, &id, done("look")).await.unwrap();
            id
        }
        Status::Done => {
            let id = ready(place).await;
            place.complete(&ann, &id, done("done")).await.unwrap();
            id
        }
        Status::Archived => {
            let id = ready(place).await;
            place.archive(&ann, &id).await.unwrap();
            id
        }
    }
}

pub(crate) async fn get(place: &TestBoard, id: &TaskId) -> Task {
    place.get(id).await.unwrap()
}

pub(crate) async fn status(place: &TestBoard, id: &TaskId) -> Status {
    get(place, id).await.status
}

/// The kinds of a task's last events, oldest first.
pub(crate) async fn kinds(place: &TestBoard, id: &TaskId) -> Vec<String> {
    let events = place.show(id).await.unwrap().events;
    events.into_iter().map(|event| event.kind).collect()
}

/// The payload of a task's last event of a kind.
pub(crate) async fn reported(place: &TestBoard, id: &TaskId, kind: &str) -> serde_json::Value {
    let events = place.show(id).await.unwrap().events;
    let event = events.into_iter().rev().find(|event| event.kind == kind);
    event.unwrap_or_else(|| panic!("no event {kind}")).payload
}

pub(crate) async fn everything(place: &TestBoard) -> Vec<Task> {
    place.list(&TaskQuery { with_archived: true, ..TaskQuery::default() }).await.unwrap()
}
