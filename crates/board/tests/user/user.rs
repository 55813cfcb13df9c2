//! Another process that uses a board, for tests to start, race and kill.
//!
//! `board-user DIRECTORY VERB [ARGUMENT]…`
//!
//! | verb | what it does |
//! |---|---|
//! | `open` | opens, says `open` |
//! | `create COUNT` | adds so many tasks, a commit each; says the name of each that was acknowledged |
//! | `keyed KEY` | adds a task with that key; says its name, or `refused` |
//! | `visit COUNT` | opens, reads, writes nothing and closes, so many times; says how many tasks it saw at last |
//! | `steps` | for each line of standard input, adds a task and says its name |
//! | `fill` | adds large tasks until one is refused; says how many were acknowledged, and why the last was not |
//! | `count` | says how many tasks there are |
//! | `listen` | says `listening`, then the number of tasks whenever there is word of a change; ends when there is none for a minute |
//! | `freeze` | begins to write, says `writing`, and stays so until standard input closes |

#![expect(clippy::print_stdout, reason = "its output is what the tests read")]

use std::error::Error;
use std::io::{BufRead as _, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use vestal_board::store::{Options, Query, SqliteStore, Store};
use vestal_board::{Kind, NewEvent, Task, TaskId, testing};

type Done<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, verb, rest @ ..] = arguments.as_slice() else { return Err("no verb".into()) };
    let path = testing::file(Path::new(dir));
    if let ("visit", [count]) = (verb.as_str(), rest) {
        return visit(&path, count.parse()?).await;
    }
    let store = SqliteStore::open(&path, Options::default()).await?;
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
        ("steps", []) => {
            for line in std::io::stdin().lock().lines() {
                say(create(&store, testing::task(&line?)).await?.as_str())?;
            }
        }
        ("fill", []) => fill(&store).await?,
        ("count", []) => say(&count(&store).await?.to_string())?,
        ("listen", []) => listen(&store).await?,
        ("freeze", []) => {
            let write = store.write().await?;
            say("writing")?;
            std::io::stdin().read_to_end(&mut Vec::new())?;
            drop(write);
        }
        _ => return Err("no such verb".into()),
    }
    store.close().await?;
    Ok(())
}

/// Adds a task as anybody does: with its lane and an event, in one commit.
async fn create(store: &dyn Store, task: Task) -> vestal_board::Result<TaskId> {
    let mut write = store.write().await?;
    write.insert_tasks(std::slice::from_ref(&task)).await?;
    let payload = serde_json::json!({"title": task.title});
    let event = NewEvent { task: task.id.clone(), run: None, kind: Kind::Created, payload };
    write.tell(&[event]).await?;
    write.commit().await?;
    Ok(task.id)
}

async fn count(store: &dyn Store) -> vestal_board::Result<u64> {
    store.read().await?.count(&Query::default()).await
}

async fn visit(path: &Path, times: u32) -> Done {
    let mut seen = 0;
    for _ in 0..times {
        if let Some(store) = SqliteStore::open_existing(path, Options::default()).await? {
            seen = count(&store).await?;
            // Who begins to write and then does not closes the file as a writer.
            drop(store.write().await?);
            store.close().await?;
        }
    }
    Ok(say(&seen.to_string())?)
}

async fn fill(store: &dyn Store) -> Done {
    let mut acknowledged = 0;
    loop {
        let large = Task { body: "many words ".repeat(3000), ..testing::task("large") };
        match create(store, large).await {
            Ok(_) => acknowledged += 1,
            Err(error) => {
                let kind = format!("{error:?}").replacen("Database(", "", 1);
                let kind = kind.split([' ', '{', '(']).next().unwrap_or_default().to_owned();
                return Ok(say(&format!("{acknowledged} {kind}"))?);
            }
        }
    }
}

async fn listen(store: &dyn Store) -> Done {
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
