//! Eight processes that make tasks at once and are killed at random.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use vestal_bench::Result;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_board::store::{SqliteOptions, SqliteStore};
use vestal_board::{Board, HostId, HostName};

use crate::Scale;
use crate::fixture::{person, task};

/// What tells this program that it is one of the eight.
pub(crate) const WORD: &str = "one-of-many";
const PROCESSES: usize = 8;
const EACH: usize = 200;

/// What the alternative lost of 185 acknowledged tasks, recorded.
const THEY_LOST: u64 = 62;

/// Makes tasks, and says the name of each once it is acknowledged.
pub(crate) fn create(file: &str, count: &str) -> Result<()> {
    let count: usize = count.parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let board = open(Path::new(file)).await?;
        let mut out = std::io::stdout();
        for number in 0..count {
            let created = board.create(&person(), task(number)?).await?;
            writeln!(out, "{}", created.task.id)?;
            out.flush()?;
        }
        Ok(())
    })
}

async fn open(file: &Path) -> Result<Board> {
    let store = SqliteStore::open(file, SqliteOptions::default()).await?;
    let host = HostId::this(HostName::of_this_machine())?;
    let dir = file.parent().ok_or("a file in no directory")?;
    Ok(Board::new(Arc::new(store), "default", dir, host))
}

pub(crate) fn measure(scale: Scale) -> Result<Vec<BenchRow>> {
    let (mut acknowledged, mut lost, mut damaged) = (0_u64, 0_u64, 0_u64);
    for _ in 0..scale.crowds {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("kanban.db");
        let names = rush(&file)?;
        let (missing, whole) = look(&file, &names)?;
        acknowledged += u64::try_from(names.len())?;
        lost += missing;
        damaged += u64::from(!whole);
    }
    let killed = "each is killed after a random time";
    Ok(vec![
        BenchRow::single("8 processes × 200 creates, killed: tasks lost", Figure::count(lost))
            .beside(Figure::count(THEY_LOST))
            .bar(Bar::AtMost(Figure::count(0)))
            .note(format!("of {acknowledged} acknowledged; {killed}; theirs was recorded, of 185")),
        BenchRow::single(
            "8 processes × 200 creates, killed: boards damaged",
            Figure::count(damaged),
        )
        .bar(Bar::AtMost(Figure::count(0))),
    ])
}

/// Lets the processes loose, and returns the tasks that were acknowledged.
fn rush(file: &Path) -> Result<BTreeSet<String>> {
    let own = std::env::current_exe()?;
    let mut children = Vec::new();
    for _ in 0..PROCESSES {
        let child = Command::new(&own)
            .arg(WORD)
            .arg(file)
            .arg(EACH.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        children.push(child);
    }
    let threads: Vec<_> = children
        .into_iter()
        .enumerate()
        .map(|(number, child)| std::thread::spawn(move || until_killed(child, number)))
        .collect();
    let mut names = BTreeSet::new();
    for thread in threads {
        names.extend(thread.join().map_err(|_| "a thread failed")??);
    }
    Ok(names)
}

/// Reads what a process says, kills it when it has printed a random number of
/// names, and returns them all.
fn until_killed(mut child: Child, number: usize) -> Result<Vec<String>> {
    let out = child.stdout.take().ok_or("no output")?;
    let random = usize::try_from(getrandom::u32()?)?;
    // One lives to the end.
    let grace = if number == 0 { EACH } else { random % EACH };
    let mut names = Vec::new();
    let mut lines = BufReader::new(out).lines();
    while names.len() < grace {
        let Some(name) = lines.next() else { break };
        names.push(name?);
    }
    if names.len() < EACH {
        // Somewhere in the middle of what it does next.
        std::thread::sleep(Duration::from_micros(u64::try_from(random % 3_000)?));
        child.kill()?;
    }
    for name in lines {
        names.push(name?);
    }
    let output = child.wait_with_output()?;
    if names.is_empty() && grace > 0 {
        return Err(format!("nothing was made: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    // A name that was cut off was not printed.
    names.retain(|name| name.len() == 14);
    Ok(names)
}

/// Returns how many of the tasks are not there, and whether the file is whole.
fn look(file: &Path, names: &BTreeSet<String>) -> Result<(u64, bool)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
        let mut connection = options.connect().await?;
        let printed: Vec<String> =
            sqlx::query_scalar("PRAGMA integrity_check").fetch_all(&mut connection).await?;
        let there: Vec<String> =
            sqlx::query_scalar("SELECT id FROM tasks").fetch_all(&mut connection).await?;
        let there: BTreeSet<String> = there.into_iter().collect();
        Ok((u64::try_from(names.difference(&there).count())?, printed == ["ok"]))
    })
}
