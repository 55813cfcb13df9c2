//! Runs a command in a durable sandbox.
//!
//! Run it twice: the second process continues in the shell of the first, with its
//! variables, its directory and its files.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use vestal_config::{Environment, Home, Settings};
use vestal_sandbox::{CLOSE_WITHIN, Command, Engine, TaskName};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Settings come from the environment and from `config.yaml` in the home, which is
    // `VESTAL_HOME` or `~/.vestal`. The backend, for example, is `terminal.backend`.
    let environment = Environment::capture();
    let home = Home::locate(&environment, None)?;
    let engine =
        Engine::open(Settings::load(&vestal_sandbox::schema(), home, environment, Vec::new()))?;

    // A task names a sandbox. The first use creates it; every later process finds it.
    let task: TaskName = "example".parse()?;
    let sandbox = engine.sandbox(&task).await?;

    // Commands of one session share a shell: variables and directory stay.
    let count = Command::shell("count=$((count + 1)); echo \"run $count\"").session("main");
    let output = sandbox.run(count).await?;
    print!("{}", output.stdout.text());

    // Ends this process's part. The sandbox stays.
    engine.close(CLOSE_WITHIN).await;
    Ok(())
}
