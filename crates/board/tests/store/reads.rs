//! Reading: lists, single tasks, and the plans of queries.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _, SqliteConnection,
};
use vestal_board::store::{
    BoardStore as _, EventQuery, Order, Read, SqliteOptions, SqliteStore, TaskQuery,
};
use vestal_board::testing::{TestBoard, profile, task};
use vestal_board::{Kind, NewTaskEvent, RunId, Status, Task, Time};

use crate::{add_all, full, place};

async fn titles(place: &TestBoard, query: &TaskQuery) -> Vec<String> {
    let mut read = place.read().await.unwrap();
    let tasks = read.list(query).await.unwrap();
    let counted =
        read.count(&TaskQuery { limit: Some(1), offset: 1, ..query.clone() }).await.unwrap();
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

async fn board() -> TestBoard {
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
    assert_eq!(titles(&place, &TaskQuery::default()).await, all);
    let with_archived = TaskQuery { with_archived: true, ..TaskQuery::default() };
    assert_eq!(titles(&place, &with_archived).await, [&all[..], &["archived"]].concat());
    let page = TaskQuery { limit: Some(2), offset: 1, ..TaskQuery::default() };
    assert_eq!(titles(&place, &page).await, all[1..3]);
}

#[tokio::test]
async fn lists_can_be_narrowed() {
    let place = board().await;
    let cases: [(TaskQuery, &[&str]); 11] = [
        (
            TaskQuery { statuses: vec![Status::Ready], ..TaskQuery::default() },
            &["urgent", "greet", "later"],
        ),
        (
            TaskQuery { statuses: vec![Status::Archived, Status::Blocked], ..TaskQuery::default() },
            &["blocked", "archived"],
        ),
        (TaskQuery { assignee: Some(Some("Ada".to_owned())), ..TaskQuery::default() }, &["urgent"]),
        (TaskQuery { assignee: Some(Some("no such".to_owned())), ..TaskQuery::default() }, &[]),
        (
            TaskQuery { assignee: Some(None), ..TaskQuery::default() },
            &["blocked", "running", "later", "done"],
        ),
        (TaskQuery { tenant: Some("acme".to_owned()), ..TaskQuery::default() }, &["later"]),
        (TaskQuery { session: Some("talk".to_owned()), ..TaskQuery::default() }, &["running"]),
        (TaskQuery { needs_attention: true, ..TaskQuery::default() }, &["blocked"]),
        (
            TaskQuery {
                needs_attention: true,
                statuses: vec![Status::Ready, Status::Archived],
                ..TaskQuery::default()
            },
            &[],
        ),
        (TaskQuery { text: Some("ärger".to_owned()), ..TaskQuery::default() }, &["greet"]),
        (TaskQuery { text: Some("ER".to_owned()), ..TaskQuery::default() }, &["greet", "later"]),
    ];
    for (query, expected) in cases {
        assert_eq!(titles(&place, &query).await, expected, "{query:?}");
    }
    let page = TaskQuery {
        text: Some("er".to_owned()),
        limit: Some(1),
        offset: 1,
        ..TaskQuery::default()
    };
    assert_eq!(titles(&place, &page).await, ["later"]);
    let hostile = TaskQuery { text: Some("%' OR 1=1 --".to_owned()), ..TaskQuery::default() };
    assert_eq!(titles(&place, &hostile).await, [""; 0]);
}

#[tokio::test]
async fn lists_can_be_ordered() {
    let place = board().await;
    let first = |order| TaskQuery { order, limit: Some(3), ..TaskQuery::default() };
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
    let all = TaskQuery { order: Order::Assignee, ..TaskQuery::default() };
    let titles = titles(&place, &all).await;
    assert_eq!(titles[4..], ["urgent", "greet"]);
}

/// Returns the files of a directory that hold data, with their bytes.
fn bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    // The shared memory holds marks of who reads, and no data.
    let data = named.filter(|(name, _)| !name.ends_with("-shm"));
    data.map(|(name, path)| (name, std::fs::read(path).unwrap())).collect()
}

async fn version(connection: &mut SqliteConnection) -> i64 {
    connection.fetch_one("PRAGMA data_version").await.unwrap().get(0)
}

/// Asks everything that can be asked.
async fn ask_everything(read: &mut dyn Read, id: &vestal_board::TaskId) {
    read.task(id).await.unwrap();
    read.names_like("t_", 9).await.unwrap();
    read.task_with_key("key of full").await.unwrap().unwrap();
    read.list(&TaskQuery { text: Some("body".to_owned()), ..TaskQuery::default() }).await.unwrap();
    read.list(&TaskQuery::default()).await.unwrap();
    read.count(&TaskQuery::default()).await.unwrap();
    read.parents(id).await.unwrap();
    read.children(id).await.unwrap();
    read.waits_for(id, id).await.unwrap();
    read.comments(id, 9).await.unwrap();
    read.events(id, 9).await.unwrap();
    let every = EventQuery {
        after: 0,
        task: None,
        kinds: Vec::new(),
        assignee: Some("ada".to_owned()),
        tenant: None,
        limit: 9,
    };
    read.events_after(&every).await.unwrap();
    read.last_event().await.unwrap();
    read.run(RunId::new(1)).await.unwrap();
    read.runs(id, 9).await.unwrap();
    read.live_runs().await.unwrap();
    read.completed_by("ada", 9).await.unwrap();
    read.made_by(RunId::new(1)).await.unwrap();
    read.failures(id).await.unwrap();
    read.attachments(id).await.unwrap();
    read.attachment(1).await.unwrap();
    read.stored_files().await.unwrap();
    for lane in read.lanes().await.unwrap() {
        read.queue(&lane.key, 9).await.unwrap();
    }
    read.due(9).await.unwrap();
    read.guarded(9).await.unwrap();
    read.next_moment().await.unwrap();
    read.running().await.unwrap();
    read.counts().await.unwrap();
    read.oldest_queued().await.unwrap();
    let now = read.now();
    read.failing(1, 9).await.unwrap();
    read.blocked_before(now, 9).await.unwrap();
    read.blocked_repeatedly(now, 1, 9).await.unwrap();
    read.note("about").await.unwrap();
}

#[tokio::test]
async fn no_question_changes_the_board_not_even_one_that_opens_and_closes_the_file() {
    let place = place().await;
    let (plain, full) = (task("plain"), full("full"));
    add_all(&place, &[plain.clone(), full.clone()]).await;
    let mut write = place.write().await.unwrap();
    write.link(&plain.id, &full.id).await.unwrap();
    write.insert_run(&vestal_board::testing::run(&full.id)).await.unwrap();
    let event = NewTaskEvent {
        task: full.id.clone(),
        run: None,
        kind: Kind::Created,
        payload: serde_json::json!({}),
    };
    write.add_events(&[event]).await.unwrap();
    write.commit().await.unwrap();
    place.advance(Duration::from_hours(1));

    // While others have it open.
    let options = SqliteConnectOptions::new().filename(place.file()).read_only(true);
    let mut witness = options.connect().await.unwrap();
    let before = (bytes(place.path()), version(&mut witness).await);
    ask_everything(&mut *place.read().await.unwrap(), &full.id).await;
    assert!(before == (bytes(place.path()), version(&mut witness).await));

    // And by a process that comes, asks and goes, where nobody has it open.
    witness.close().await.unwrap();
    place.close().await.unwrap();
    let before = bytes(place.path());
    let opened = SqliteStore::open_existing(place.file(), SqliteOptions::default()).await;
    let store = opened.unwrap().unwrap();
    ask_everything(&mut *store.read().await.unwrap(), &full.id).await;
    store.close().await.unwrap();
    let after = bytes(place.path());
    assert!(before["kanban.db"] == after["kanban.db"]);
    assert!(after.get("kanban.db-wal").is_none_or(Vec::is_empty));
}

/// Statements as the store puts them, and the index that each has to use.
const PLANS: &[(&str, &str)] = &[
    ("seq FROM tasks WHERE shelf < 19 ORDER BY shelf, rank, seq", "COVERING INDEX tasks_by_shelf"),
    (
        "seq FROM tasks WHERE shelf IN (3, 13) ORDER BY shelf, rank, seq",
        "COVERING INDEX tasks_by_shelf",
    ),
    (
        "seq FROM tasks WHERE shelf < 19 AND assignee = 'a' ORDER BY shelf, rank, seq",
        "COVERING INDEX tasks_by_shelf",
    ),
    (
        "seq FROM tasks WHERE shelf < 19 AND tenant = 'a' AND tenant <> '' \
         ORDER BY shelf, rank, seq",
        "tasks_by_tenant",
    ),
    (
        "seq FROM tasks WHERE shelf < 19 AND session_id = 'a' ORDER BY shelf, rank, seq",
        "tasks_by_session",
    ),
    (
        "* FROM tasks WHERE queue_as = 'a' AND tenant = '' AND workspace_host = '' \
         ORDER BY rank, seq",
        "tasks_queued",
    ),
    ("* FROM tasks WHERE wake_at <= 7 ORDER BY wake_at, seq", "tasks_by_moment"),
    (
        "* FROM tasks WHERE wake_at IS NOT NULL AND status IN ('ready', 'review') \
         ORDER BY wake_at, seq",
        "tasks_guarded",
    ),
    ("min(wake_at) FROM tasks WHERE wake_at IS NOT NULL", "tasks_by_moment"),
    ("* FROM tasks WHERE idempotency_key = 'k' AND status <> 'archived'", "tasks_by_key"),
    ("count(*) FROM tasks WHERE created_by_run = 7", "tasks_by_maker"),
    ("* FROM tasks WHERE shelf IN (0, 10) ORDER BY shelf", "tasks_by_shelf"),
    ("min(queued_at) FROM tasks WHERE queue_as IS NOT NULL", "COVERING INDEX tasks_queued"),
    ("* FROM runs WHERE ended_at IS NULL OR gone = 0 ORDER BY id", "runs_alive"),
    (
        "min(expires_at) FROM runs WHERE (ended_at IS NULL OR gone = 0) AND ended_at IS NULL",
        "runs_alive",
    ),
    (
        "* FROM runs WHERE runs.profile = 'a' AND runs.outcome = 'completed' \
         ORDER BY runs.ended_at DESC, runs.id DESC",
        "runs_completed",
    ),
    ("* FROM events WHERE task_id = 'a' ORDER BY id DESC", "events_by_task"),
    ("* FROM events WHERE events.id > 7 ORDER BY events.id", "INTEGER PRIMARY KEY"),
];

async fn plan(connection: &mut sqlx::SqliteConnection, statement: &str) -> String {
    let text = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let rows = connection.fetch_all(sqlx::query(text)).await.unwrap();
    rows.iter().map(|row| row.get("detail")).collect::<Vec<String>>().join("; ")
}

#[tokio::test]
async fn what_is_asked_often_is_read_off_an_index_and_not_sorted() {
    let place = place().await;
    let options = SqliteConnectOptions::new().filename(place.file()).read_only(true);
    let mut connection = options.connect().await.unwrap();
    for (statement, expected) in PLANS {
        let plan = plan(&mut connection, &format!("SELECT {statement} LIMIT 100")).await;
        assert!(plan.contains(expected), "{statement}: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{statement}: {plan}");
    }
    // A page of a list: which tasks is read off the index, then they are.
    let page = "SELECT * FROM tasks WHERE seq IN (SELECT seq FROM tasks WHERE shelf < 19 \
                ORDER BY shelf, rank, seq LIMIT 100 OFFSET 0) ORDER BY shelf, rank, seq";
    let plan = plan(&mut connection, page).await;
    assert!(plan.contains("SEARCH tasks USING INTEGER PRIMARY KEY"), "{plan}");
    assert!(plan.contains("SEARCH tasks USING COVERING INDEX tasks_by_shelf"), "{plan}");
}
