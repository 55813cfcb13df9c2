//! Another process that uses a board, for tests to start, race and kill.
//!
//! `board-user DIRECTORY VERB [ARGUMENT]…`
//!
//! | verb | what it does |
//! |---|---|
//! | `open` | opens, says `open` |
//! | `create COUNT` | adds so many tasks, a commit each; says the name of each that was acknowledged |
//! | `keyed KEY` | adds a task with that key; says its name, or `refused` |
//! | `count` | says how many tasks there are |
//! | `listen` | says `listening`, then the number of tasks whenever there is word of a change; ends when there is none for a minute |

#![expect(clippy::print_stdout, reason = "its output is what the tests read")]

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use vestal_board::store::{BoardStore, SqliteOptions, SqliteStore, TaskQuery};
use vestal_board::{Kind, NewTaskEvent, Task, TaskId, testing};

type Done<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, verb, rest @ ..] = arguments.as_slice() else { return Err("no verb".into()) };
    let path = testing::file(Path::new(dir));
    let store = SqliteStore::open(&path, SqliteOptions::default()).await?;
    match (verb.as_str(), rest) {
        ("open", []) => say("open")?,
        ("create", [count]) => {
            for number in 0..count.parse::<u32>()? {
                say(create(&store, testing::task(&format!("task {number}"))).await?.as_str())?;
            }
        }
        ("keyed", [key]) => {
            let new = Task { idempotency_key: Some(key.clone()), ..testing::task("keyed") };
            match create(&store, new).await {
                Ok(id) => say(id.as_str())?,
                Err(vestal_board::Error::Database(_)) => say("refused")?,
                Err(error) => return Err(error.into()),
            }
        }
        ("count", []) => say(&count(&store).await?.to_string())?,
        ("listen", []) => listen(&store).await?,
        _ => return Err("no such verb".into()),
    }
    store.close().await?;
    Ok(())
}

/// Adds a task as anybody does: with its lane and an event, in one commit.
async fn create(store: &dyn BoardStore, task: Task) -> vestal_board::Result<TaskId> {
    let mut write = store.write().await?;
    write.insert_tasks(std::slice::from_ref(&task)).await?;
    let payload = serde_json::json!({"title": task.title});
    let event = NewTaskEvent { task: task.id.clone(), run: None, kind: Kind::Created, payload };
    write.add_events(&[event]).await?;
    write.commit().await?;
    Ok(task.id)
}

async fn count(store: &dyn BoardStore) -> vestal_board::Result<u64> {
    store.read().await?.count(&TaskQuery::default()).await
}

async fn listen(store: &dyn BoardStore) -> Done {
    let mut changes = store.changes()?;
    // The first word may be of nothing.
    changes.next().await?;
    say("listening")?;
    loop {
        // A test that waits in vain is to fail, and nothing of it to stay.
        tokio::time::timeout(Duration::from_mins(1), changes.next()).await??;
        say(&count(store).await?.to_string())?;
    }
}

fn say(line: &str) -> std::io::Result<()> {
    println!("{line}");
    std::io::stdout().flush()
}
