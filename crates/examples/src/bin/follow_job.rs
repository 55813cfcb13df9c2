//! Streams what a job prints into a file, through lost connections and crashes.
//!
//! `follow_job FILE`: kill it half-way and start it again. The job runs once, and the
//! file has every line once.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::fs::File;
use std::io::Write as _;

use vestal_config::{Environment, Home, Settings};
use vestal_sandbox::job::{JobEvent, JobOutcome};
use vestal_sandbox::{
    AttachJob, CLOSE_WITHIN, Command, Engine, JobId, JobState, OutputDelivery, TaskName,
};

/// Takes about two seconds: time to interrupt it.
const COUNT: &str = "for n in $(seq 40); do echo line $n; sleep 0.05; done";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: follow_job FILE")?;
    let environment = Environment::capture();
    let home = Home::locate(&environment, None)?;
    let engine =
        Engine::open(Settings::load(&vestal_sandbox::schema(), home, environment, Vec::new()))?;
    let task: TaskName = "example".parse()?;
    let sandbox = engine.sandbox(&task).await?;

    // The caller chooses the id. A job with this id is started once only: a second
    // process that sends the same id gets the job that is there.
    let id: JobId = "count".parse()?;
    sandbox.spawn(Command::shell(COUNT).job_id(id.clone())).await?;

    // The length of the file is the position in the output, also after a crash.
    let mut file = File::options().create(true).append(true).open(path)?;
    let request = AttachJob {
        id,
        stdout_from: file.metadata()?.len(),
        stderr_from: 0,
        follow: true,
        delivery: OutputDelivery::EveryByte,
    };

    // The stream reconnects by itself and goes on at the byte where it was.
    let mut stream = sandbox.attach(request).await?;
    while let Some(event) = stream.next().await? {
        match event {
            JobEvent::Stdout(bytes) => file.write_all(&bytes)?,
            // The sandbox keeps a bounded log of each job. What was dropped from it
            // before it could be read is reported here.
            JobEvent::Gap { bytes, .. } => return Err(format!("{bytes} bytes are gone").into()),
            JobEvent::Stderr(_) | JobEvent::Started { .. } | JobEvent::Ended(_) => {}
        }
    }

    // There are three answers, and none of them is a guess.
    match stream.finish().await? {
        JobOutcome::Ran(info) => match info.state {
            JobState::Ended(exit) => println!("it ended: {:?}, code {:?}", exit.cause, exit.code),
            JobState::Starting | JobState::Running => println!("it still runs"),
        },
        JobOutcome::NeverStarted { .. } => println!("it never started: it is safe to try again"),
        JobOutcome::Unknown { .. } => println!("it may have run: its records are gone"),
    }
    engine.close(CLOSE_WITHIN).await;
    Ok(())
}
