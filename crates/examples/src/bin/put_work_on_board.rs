//! Puts two tasks on the board, one waiting for the other.
//!
//! `vestal kanban list` shows them. A task with an assignee is started by a dispatcher
//! (`vestal kanban dispatch`) as soon as it is ready.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use vestal_board::boards::{Make, Slug};
use vestal_board::{Authority, NewTask};
use vestal_config::{Environment, Home, Settings};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // All profiles of a home share its boards.
    let environment = Environment::capture();
    let home = Home::locate(&environment, None)?;
    let boards = vestal_board::settings::boards(&Settings::load(
        &vestal_board::schema(),
        home,
        environment,
        Vec::new(),
    ))?;
    let board = boards.open(&Slug::default_board(), Make::IfMissing).await?;

    // Every change has an author. A worker shows the number of its run instead.
    let author = Authority::Person("example".to_owned());
    let build = NewTask { title: "build the release".to_owned(), ..NewTask::default() };
    let build = board.create(&author, build).await?.task;

    // A task waits until its parents are done.
    let publish = NewTask {
        title: "publish the release".to_owned(),
        parents: vec![build.id.clone()],
        ..NewTask::default()
    };
    let publish = board.create(&author, publish).await?.task;

    for task in [build, publish] {
        println!("{} {}: {}", task.id, task.status, task.title);
    }
    board.close().await?;
    Ok(())
}
