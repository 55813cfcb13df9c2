//! Making tasks: one at a time, and many.

use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use vestal_bench::Result;
use vestal_bench::report::{Bar, BenchRow, Figure};
use vestal_board::Board;

use crate::Scale;
use crate::fixture::{BoardFixture, LARGE, person, task};

/// Tasks that are made by turns before the other has its turn.
const TURN: usize = 50;
/// Tasks of one transaction of an import.
const BATCH: usize = 5_000;

/// Makes tasks one by one, a durable commit each, by turns with rows of the
/// same words that are put into a plain table with the same durability.
pub(crate) async fn measure(scale: Scale) -> Result<Vec<BenchRow>> {
    let fixture = BoardFixture::new()?;
    let board = fixture.open().await?;
    let mut plain = plain(&fixture).await?;
    let (mut ours, mut theirs) = (Duration::ZERO, Duration::ZERO);
    let turns = scale.creates.div_ceil(TURN);
    // The first turn is not counted: files grow, caches fill.
    for turn in 0..=turns {
        let (mut begun, mut made) = (Instant::now(), Duration::ZERO);
        for number in 0..TURN {
            board.create(&person(), task(turn * TURN + number)?).await?;
        }
        made += begun.elapsed();
        begun = Instant::now();
        for number in 0..TURN {
            insert(&mut plain, turn * TURN + number).await?;
        }
        if turn > 0 {
            ours += made;
            theirs += begun.elapsed();
        }
    }
    plain.close().await?;
    board.close().await?;
    let count = u64::try_from(turns * TURN)?;
    let row =
        BenchRow::single("create: one connection, a commit each", Figure::per_second(count, ours))
            .beside(Figure::per_second(count, theirs))
            .bar(Bar::TimesAtLeast(0.6))
            .note("beside a row of the same words in a plain table, with the same durability");
    Ok(vec![row])
}

async fn plain(fixture: &BoardFixture) -> Result<SqliteConnection> {
    let mut connection = SqliteConnectOptions::new()
        .filename(fixture.home().join("plain.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // As the board has it, so that both put their log away as often.
        .pragma("wal_autocheckpoint", "4000")
        .connect()
        .await?;
    let table = "CREATE TABLE tasks (id TEXT PRIMARY KEY, title TEXT NOT NULL, body TEXT NOT NULL, \
                 assignee TEXT, tenant TEXT, status TEXT NOT NULL, priority INTEGER NOT NULL, \
                 created_at INTEGER NOT NULL)";
    sqlx::query(table).execute(&mut connection).await?;
    Ok(connection)
}

async fn insert(connection: &mut SqliteConnection, number: usize) -> Result<()> {
    let new = task(number)?;
    let text = "INSERT INTO tasks VALUES ($1, $2, $3, $4, $5, 'ready', $6, $7)";
    sqlx::query(text)
        .bind(format!("t_{number:012}"))
        .bind(new.title)
        .bind(new.body)
        .bind(new.assignee.map(|name| name.as_str().to_owned()))
        .bind(new.tenant)
        .bind(new.priority)
        .bind(i64::try_from(number)?)
        .execute(connection)
        .await?;
    Ok(())
}

/// Fills a board, and measures how long that takes.
#[derive(Debug, Default)]
pub(crate) struct Import {
    made: usize,
    /// What was made of the board until it was [`LARGE`], and how long it took.
    first: (usize, Duration),
    /// The same of what came after that.
    later: (usize, Duration),
}

impl Import {
    /// Brings a board to a number of tasks.
    pub(crate) async fn grow(&mut self, board: &Board, size: usize) -> Result<()> {
        while self.made < size {
            let many = BATCH.min(size - self.made);
            let new = (self.made..self.made + many).map(task).collect::<Result<Vec<_>>>()?;
            let begun = Instant::now();
            board.create_many(&person(), new).await?;
            let part = if self.made < LARGE { &mut self.first } else { &mut self.later };
            part.0 += many;
            part.1 += begun.elapsed();
            self.made += many;
        }
        Ok(())
    }

    pub(crate) fn rows(&self) -> Result<Vec<BenchRow>> {
        let rate = |(made, time): (usize, Duration)| -> Result<Figure> {
            Ok(Figure::per_second(u64::try_from(made)?, time))
        };
        let first = BenchRow::single("create: a batch import", rate(self.first)?)
            .bar(Bar::AtLeast(Figure::PerSecond(20_000.0)))
            .note(format!("{} tasks, {BATCH} a commit", self.first.0));
        let mut rows = vec![first];
        if self.later.0 > 0 {
            let what = format!("create: a batch import, on to {} tasks", self.made);
            rows.push(BenchRow::single(what, rate(self.later)?));
        }
        Ok(rows)
    }
}
