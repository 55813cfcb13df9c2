//! Another process that uses sandboxes, for tests to start, race and kill.
//!
//! `sandbox-worker HOME [--set KEY=VALUE]… VERB TASK [ARGUMENT]`
//!
//! It prints one line of JSON when the verb is done; `attach` and `hold` then
//! stay until standard input closes.

#![expect(clippy::print_stdout, reason = "its output is what the tests read")]

#[path = "../conformance/support/engine.rs"]
mod engine;
#[path = "../conformance/support/toy.rs"]
mod toy;

use std::error::Error;
use std::io::Read as _;

use serde_json::json;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_sandbox::{
    Command, Engine, EngineOptions, FilesOnRemoval, Rebuild, Sandbox, StateBefore, TaskName,
    WhileBusy,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let home = arguments.next().ok_or("no home")?;
    let mut overrides = Vec::new();
    let mut words = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--set" {
            overrides.push(Override::parse(
                &vestal_sandbox::schema(),
                &arguments.next().ok_or("--set what?")?,
            )?);
        } else {
            words.push(argument);
        }
    }
    let [verb, task, rest @ ..] = words.as_slice() else {
        return Err("no verb and task".into());
    };
    let task: TaskName = task.parse()?;
    let settings = Settings::load(
        &vestal_sandbox::schema(),
        Home::at(home),
        Environment::capture(),
        overrides,
    );
    let launch_dir = Some(std::env::current_dir()?);
    let engine = engine::open(settings, EngineOptions { launch_dir, ..EngineOptions::default() })?;
    perform(&engine, verb, &task, rest.first().map(String::as_str)).await?;
    engine.close(vestal_sandbox::CLOSE_WITHIN).await;
    Ok(())
}

async fn perform(
    engine: &Engine,
    verb: &str,
    task: &TaskName,
    argument: Option<&str>,
) -> Result<(), Box<dyn Error>> {
    match verb {
        "attach" => {
            let sandbox = engine.sandbox(task).await?;
            println!("{}", describe(&sandbox).await);
            until_reported();
        }
        "run" => {
            let sandbox = engine.sandbox(task).await?;
            let text = argument.ok_or("run what?")?;
            let output = sandbox.run(Command::shell(text).session("main")).await?;
            let code = output.exit.code;
            println!("{}", json!({ "code": code, "stdout": output.stdout.text() }));
        }
        "spawn" => {
            let sandbox = engine.sandbox(task).await?;
            let text = argument.ok_or("spawn what?")?;
            let job = sandbox.spawn(Command::shell(text).session("main")).await?;
            let id = job.id.as_str();
            println!("{}", json!({ "job": id, "pid": job.pid, "start": job.pid_start }));
        }
        "stop" => println!("{}", json!({ "stopped": engine.stop(task).await? })),
        "remove" => {
            let files = match argument {
                Some("--files") => FilesOnRemoval::Remove,
                _ => FilesOnRemoval::Keep,
            };
            let removal = engine.remove(task, files).await?;
            println!("{}", json!({ "removed": removal.instances }));
        }
        "snapshot" => {
            let name = argument.ok_or("what name?")?.parse()?;
            let made = engine.snapshot(task, &name, None, WhileBusy::Stop).await?;
            println!("{}", json!({ "files": made.files, "bytes": made.bytes }));
        }
        "remove-snapshot" => {
            let name = argument.ok_or("what name?")?.parse()?;
            engine.remove_snapshot(task, &name).await?;
            println!("{}", json!({ "removed": 1 }));
        }
        "restore" => {
            let name = argument.ok_or("what name?")?.parse()?;
            engine.restore(task, &name, WhileBusy::Stop).await?;
            println!("{}", json!({ "restored": true }));
        }
        "fork" => {
            let to: TaskName = argument.ok_or("to what?")?.parse()?;
            let forked = engine.fork(task, None, &to, WhileBusy::Stop).await?;
            println!("{}", json!({ "files": forked.files, "bytes": forked.bytes }));
        }
        "rebuild" => {
            let rebuild = Rebuild { backend: argument.map(str::to_owned), ..Rebuild::default() };
            let rebuilt = engine.rebuild(task, &rebuild, WhileBusy::Stop).await?;
            println!("{}", json!({ "was": rebuilt.was, "now": rebuilt.now }));
        }
        other => return Err(format!("unknown verb {other}").into()),
    }
    Ok(())
}

async fn describe(sandbox: &Sandbox) -> serde_json::Value {
    let before = match sandbox.state_before() {
        StateBefore::Absent => "absent",
        StateBefore::Stopped => "stopped",
        StateBefore::Running => "running",
    };
    json!({
        "instance": sandbox.instance().await,
        "generation": sandbox.generation().await,
        "before": before,
    })
}

/// Stays until standard input closes.
fn until_reported() {
    let mut sink = Vec::new();
    std::io::stdin().read_to_end(&mut sink).ok();
}
