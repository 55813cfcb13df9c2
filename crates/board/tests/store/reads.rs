//! Reads never write.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _, SqliteConnection};
use vestal_board::store::{EventQuery, Options, Query, Read, SqliteStore, Store as _};
use vestal_board::testing::task;
use vestal_board::{Kind, NewEvent, RunId};

use crate::{add_all, full, place};

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
    read.list(&Query { text: Some("body".to_owned()), ..Query::default() }).await.unwrap();
    read.list(&Query::default()).await.unwrap();
    read.count(&Query::default()).await.unwrap();
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
    read.blocked_often(now, 1, 9).await.unwrap();
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
    let event = NewEvent {
        task: full.id.clone(),
        run: None,
        kind: Kind::Created,
        payload: serde_json::json!({}),
    };
    write.tell(&[event]).await.unwrap();
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
    let opened = SqliteStore::open_existing(place.file(), Options::default()).await;
    let store = opened.unwrap().unwrap();
    ask_everything(&mut *store.read().await.unwrap(), &full.id).await;
    store.close().await.unwrap();
    let after = bytes(place.path());
    assert!(before["kanban.db"] == after["kanban.db"]);
    assert!(after.get("kanban.db-wal").is_none_or(Vec::is_empty));
}
