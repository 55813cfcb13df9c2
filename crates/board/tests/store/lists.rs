//! Lists of tasks.

use std::ops::ControlFlow;

use vestal_board::store::{Order, Query};
use vestal_board::testing::{Place, profile, task};
use vestal_board::{Status, Task, Time};

use crate::{add_all, place};

async fn titles(place: &Place, query: &Query) -> Vec<String> {
    let mut read = place.read().await.unwrap();
    let tasks = read.list(query).await.unwrap();
    let counted = read.count(&Query { limit: Some(1), offset: 1, ..query.clone() }).await.unwrap();
    if query.limit.is_none() && query.offset == 0 {
        assert_eq!(counted, tasks.len() as u64, "{query:?}");
    }
    // What is handed over one by one is the same.
    let mut visited = Vec::new();
    let each = &mut |task| {
        visited.push(task);
        ControlFlow::Continue(())
    };
    read.visit(query, each).await.unwrap();
    assert_eq!(visited, tasks, "{query:?}");
    let mut first = None;
    let each = &mut |task| {
        assert_eq!(first.replace(task), None, "nothing comes after a break");
        ControlFlow::Break(())
    };
    read.visit(query, each).await.unwrap();
    assert_eq!(first.as_ref(), tasks.first());
    tasks.into_iter().map(|task| task.title).collect()
}

async fn board() -> Place {
    let place = place().await;
    let tasks = [
        Task { status: Status::Done, updated_at: Time::from_millis(9), ..task("done") },
        Task { status: Status::Archived, ..task("archived") },
        Task { priority: 5, assignee: Some(profile("ada")), ..task("urgent") },
        Task { priority: -5, tenant: Some("acme".to_owned()), ..task("later") },
        Task { status: Status::Running, session_id: Some("talk".to_owned()), ..task("running") },
        Task { status: Status::Blocked, attention: Some("look".to_owned()), ..task("blocked") },
        Task {
            body: "Grüße an ÄRGER".to_owned(),
            assignee: Some(profile("grace")),
            ..task("greet")
        },
    ];
    add_all(&place, &tasks).await;
    place
}

#[tokio::test]
async fn a_list_begins_with_what_a_person_should_look_at_and_what_goes_on() {
    let place = board().await;
    let all = ["blocked", "running", "urgent", "greet", "later", "done"];
    assert_eq!(titles(&place, &Query::default()).await, all);
    let with_archived = Query { with_archived: true, ..Query::default() };
    assert_eq!(titles(&place, &with_archived).await, [&all[..], &["archived"]].concat());
    let page = Query { limit: Some(2), offset: 1, ..Query::default() };
    assert_eq!(titles(&place, &page).await, all[1..3]);
}

#[tokio::test]
async fn lists_can_be_narrowed() {
    let place = board().await;
    let cases: [(Query, &[&str]); 11] = [
        (
            Query { statuses: vec![Status::Ready], ..Query::default() },
            &["urgent", "greet", "later"],
        ),
        (
            Query { statuses: vec![Status::Archived, Status::Blocked], ..Query::default() },
            &["blocked", "archived"],
        ),
        (Query { assignee: Some(Some("Ada".to_owned())), ..Query::default() }, &["urgent"]),
        (Query { assignee: Some(Some("no such".to_owned())), ..Query::default() }, &[]),
        (
            Query { assignee: Some(None), ..Query::default() },
            &["blocked", "running", "later", "done"],
        ),
        (Query { tenant: Some("acme".to_owned()), ..Query::default() }, &["later"]),
        (Query { session: Some("talk".to_owned()), ..Query::default() }, &["running"]),
        (Query { needs_attention: true, ..Query::default() }, &["blocked"]),
        (
            Query {
                needs_attention: true,
                statuses: vec![Status::Ready, Status::Archived],
                ..Query::default()
            },
            &[],
        ),
        (Query { text: Some("ärger".to_owned()), ..Query::default() }, &["greet"]),
        (Query { text: Some("ER".to_owned()), ..Query::default() }, &["greet", "later"]),
    ];
    for (query, expected) in cases {
        assert_eq!(titles(&place, &query).await, expected, "{query:?}");
    }
    let page = Query { text: Some("er".to_owned()), limit: Some(1), offset: 1, ..Query::default() };
    assert_eq!(titles(&place, &page).await, ["later"]);
    let hostile = Query { text: Some("%' OR 1=1 --".to_owned()), ..Query::default() };
    assert_eq!(titles(&place, &hostile).await, [""; 0]);
}

#[tokio::test]
async fn lists_can_be_ordered() {
    let place = board().await;
    let first = |order| Query { order, limit: Some(3), ..Query::default() };
    for (order, expected) in [
        (Order::Created, ["done", "urgent", "later"]),
        (Order::CreatedDesc, ["greet", "blocked", "running"]),
        (Order::Priority, ["later", "done", "running"]),
        (Order::PriorityDesc, ["urgent", "done", "running"]),
        (Order::Status, ["blocked", "done", "urgent"]),
        (Order::Title, ["blocked", "done", "greet"]),
        (Order::Updated, ["greet", "blocked", "running"]),
    ] {
        assert_eq!(titles(&place, &first(order)).await, expected, "{order}");
    }
    let all = Query { order: Order::Assignee, ..Query::default() };
    let titles = titles(&place, &all).await;
    assert_eq!(titles[4..], ["urgent", "greet"]);
}
