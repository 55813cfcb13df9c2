//! Copies of a sandbox in a real browser: made, gone back to, forked, and the sandbox made anew.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use vestal_dashboard::gate::Right;
use vestal_sandbox::{Command, FilesOnRemoval, TaskName};

use crate::sandboxes::engine;
use crate::support::DashboardFixture;
use crate::{WITHIN, browser, say};

/// Keeps a copy of a sandbox, spoils it, goes back, forks it and has it made anew, each from a page, and each
/// found done on another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_copies_a_sandbox_and_goes_back_in_the_browser() {
    let fixture = DashboardFixture::start().await;
    std::fs::write(fixture.home.join("config.yaml"), "terminal:\n  backend: native\n").unwrap();
    let engine = engine(&fixture);
    let (task, copy): (TaskName, TaskName) = ("web".parse().unwrap(), "copy".parse().unwrap());
    let run = async |task: &TaskName, text: &str| {
        let sandbox = engine.sandbox(task).await.unwrap();
        let done = sandbox.run(Command::shell(text)).await.unwrap();
        done.stdout.text()
    };
    run(&task, "echo one > file").await;
    let mut child = browser(&fixture, "copies.mjs").spawn().expect("node is not installed");
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    say(&mut stdin, &fixture.link(Right::Operator).await).await;
    let story = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            match line.as_str() {
                "spoil the file" => {
                    run(&task, "echo two > file; echo x > /etc/made").await;
                    say(&mut stdin, "done").await;
                }
                "look at the file" => {
                    assert_eq!(run(&task, "cat file; ls /etc/made 2>/dev/null").await, "one\n");
                    say(&mut stdin, "done").await;
                }
                "look at the copy" => {
                    assert_eq!(run(&copy, "cat file").await, "one\n");
                    run(&task, "touch /etc/made").await;
                    say(&mut stdin, "done").await;
                }
                other => println!("{other}"),
            }
        }
    };
    let reported = tokio::time::timeout(WITHIN, story).await;
    for task in [&task, &copy] {
        engine.remove(task, FilesOnRemoval::Remove).await.ok();
    }
    engine.close(Duration::from_mins(1)).await;
    reported.expect("the browser does not come to an end");
    let status = child.wait().await.unwrap();
    let mut reply = String::new();
    child.stderr.take().unwrap().read_to_string(&mut reply).await.unwrap();
    assert!(status.success(), "{reply}");
    fixture.stop().await;
}
