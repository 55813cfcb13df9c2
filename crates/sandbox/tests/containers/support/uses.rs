//! Using a sandbox in every way there is.

use vestal_sandbox::files::WriteOptions;
use vestal_sandbox::job::{Follow, JobEvent};
use vestal_sandbox::{Command, CommandInput, Sandbox, TaskName};
use vestal_wire::{Cause, JobExit, JobState, SearchQuery, WindowSize};

use super::{EngineFixture, marker, out, processes_with, run, until};

/// Uses a sandbox in every way there is.
pub(crate) async fn use_all(sandbox: &Sandbox) {
    assert_eq!(out(sandbox, "pwd").await, "/workspace\n");
    // A session.
    run(sandbox, "mkdir -p deep; cd deep; kept='two words'; export given=1").await;
    assert_eq!(out(sandbox, "pwd; echo $kept; env | grep given").await, {
        "/workspace/deep\ntwo words\ngiven=1\n"
    });
    // Files, by the shell and by calls.
    let files = sandbox.files(Some("main")).await.unwrap();
    files.write("~/note", b"needle\n", WriteOptions::default()).await.unwrap();
    files.write("here", b"hay\nneedle\n", WriteOptions::default()).await.unwrap();
    assert_eq!(out(sandbox, "cat ~/note here").await, "needle\nhay\nneedle\n");
    let found = files.search(search("/workspace", "needle")).await.unwrap();
    assert_eq!(found.matches.len(), 1, "{found:?}");
    // A terminal.
    let size = WindowSize { rows: 24, cols: 80 };
    let command = Command::shell("stty size; read line; echo got $line").pty(size);
    let mut job =
        sandbox.start(command.stdin(CommandInput::Piped), Follow::EveryByte).await.unwrap();
    assert!(job.write_input(b"it\n").await);
    let mut seen = Vec::new();
    while let Some(event) = job.next().await.unwrap() {
        if let JobEvent::Stdout(bytes) = event {
            seen.extend_from_slice(&bytes);
        }
    }
    let seen = String::from_utf8(seen).unwrap();
    assert!(seen.contains("24 80") && seen.contains("got it"), "{seen:?}");
    job.finish().await.unwrap();
    // A background job.
    let job = sandbox.spawn(Command::shell("echo out; exit 4").session("main")).await.unwrap();
    let info = sandbox.wait(&job.id, None).await.unwrap();
    assert_eq!(info.state, JobState::Ended(JobExit { code: Some(4), cause: Cause::Exited }));
    // And what cannot be carried out.
    let output = sandbox.run(Command::argv(["no-such-program"])).await.unwrap();
    assert_eq!(output.exit.code, Some(127));
}

fn search(root: &str, regex: &str) -> SearchQuery {
    SearchQuery {
        root: root.as_bytes().to_vec().into(),
        glob: None,
        regex: Some(regex.into()),
        ignore_case: false,
        hidden: false,
        ignored: false,
        skip: 0,
        limit: 100,
        context: 0,
    }
}

/// Kills a tree that does what it can to stay.
pub(crate) async fn kill_tree(sandbox: &Sandbox) {
    let mark = marker();
    let text = format!(
        "trap '' TERM INT HUP; setsid sleep {mark} & (setsid sh -c 'sleep {mark} & sleep {mark}' &); sleep {mark}"
    );
    let job = sandbox.spawn(Command::shell(text)).await.unwrap();
    until("all of them run", || async { processes_with(&format!("sleep\0{mark}")).len() == 4 })
        .await;
    let killed = sandbox.kill(&job.id).await.unwrap();
    assert_eq!(killed.state, JobState::Ended(JobExit { code: Some(137), cause: Cause::Killed }));
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

/// Stops the sandbox and returns it started again.
pub(crate) async fn restarted(fixture: &EngineFixture) -> Sandbox {
    assert!(fixture.engine().stop(&TaskName::default_task()).await.unwrap());
    fixture.sandbox().await
}
