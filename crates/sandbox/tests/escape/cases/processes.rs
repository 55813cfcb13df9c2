//! Processes of the host.

use std::process::{Child, Command as Process};

use crate::cell::Cell;
use crate::support::{alive, marker};

/// A process of the host's; it ends with this.
struct Bystander {
    child: Child,
    mark: String,
}

impl Bystander {
    fn new() -> Self {
        let mark = marker();
        Self { child: Process::new("sleep").arg(&mark).spawn().unwrap(), mark }
    }

    /// Returns whether it is as it was.
    fn is_well(&self) -> bool {
        alive(self.child.id())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(crate) async fn processes_of_the_host_are_not_seen(cell: &Cell) {
    let bystander = Bystander::new();
    let printed = cell.run("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done").await;
    assert!(printed.contains("serve") || printed.contains("sh"), "{printed}");
    cell.expect_unreached(printed.contains(&bystander.mark), "the command line of a process");
}

pub(crate) async fn processes_of_the_host_cannot_be_touched(cell: &Cell) {
    for what in ["handle", "trace", "read-memory", "open-memory", "take-descriptor", "signal"] {
        let bystander = Bystander::new();
        let attempt = format!("{what}={}", bystander.child.id());
        let outcomes = cell.attempt(&[&attempt]).await;
        cell.expect_unreached(!outcomes.reached().is_empty(), &attempt);
        assert!(bystander.is_well() || what == "signal" && !cell.is_enclosed(), "{attempt}");
    }
    let bystander = Bystander::new();
    let pid = bystander.child.id();
    let outcomes = cell
        .attempt(&[&format!("enter-process={pid}"), &format!("enter=/proc/{pid}/ns/ipc")])
        .await;
    cell.expect_unreached(!outcomes.reached().is_empty(), "the namespaces of a process");
}

pub(crate) async fn a_signal_to_everybody_stays_inside(cell: &Cell) {
    let bystander = Bystander::new();
    // It takes its own supervisor along, so nobody is left to say how it ended.
    let sandbox =
        cell.engine(&[]).sandbox(&vestal_sandbox::TaskName::default_task()).await.unwrap();
    let command = vestal_sandbox::Command::shell("cd; exec ./attack signal-all");
    sandbox.run(command).await.ok();
    assert!(bystander.is_well());
    assert_eq!(cell.run("echo still here").await, "still here\n");
}

pub(crate) async fn the_first_process_cannot_be_taken_over(cell: &Cell) {
    cell.expect_refused(&["trace=1", "open-memory=1", "read-memory=1", "take-descriptor=1"]).await;
}
