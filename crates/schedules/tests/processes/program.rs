//! Another process that takes what is due: it says how far it has come and waits to be killed.

use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use jiff::Timestamp;
use vestal_schedules::{RunOwner, ScheduleStore};

type AnyError = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, now, step] = arguments.as_slice() else {
        return Err("usage: schedules-user FILE NOW race|claimed|started|worked".into());
    };
    let now: Timestamp = now.parse()?;
    let store = ScheduleStore::open(path).await?;
    let owner = RunOwner::current()?;
    if step == "race" {
        say("ready")?;
        wait()?;
    }
    let taken = store.take_due(&owner, now).await?;
    for (schedule, run) in &taken.runs {
        if matches!(step.as_str(), "started" | "worked") {
            store.started(*run, now, Duration::from_mins(1)).await?;
            store.note_conversation(*run, "20260131-090000-k3f9ab").await?;
        }
        if step == "worked" {
            let mark = std::path::Path::new(path).with_extension("worked");
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(mark)?;
            writeln!(file, "{}", schedule.prompt)?;
        }
        say(&format!("run {run}"))?;
    }
    if step != "race" {
        wait()?;
    }
    Ok(())
}

fn say(line: &str) -> Result<(), AnyError> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()?;
    Ok(())
}

/// Waits for a line, or to be killed.
fn wait() -> Result<(), AnyError> {
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}
