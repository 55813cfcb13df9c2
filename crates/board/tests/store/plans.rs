//! What is asked often is read off an index, however many tasks there are.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, Row as _};

use crate::place;

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
