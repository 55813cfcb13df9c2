//! Ending real processes.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::identity::start_time;

const QUICK: EndTimeouts =
    EndTimeouts { grace: Duration::from_millis(100), kill: Duration::from_secs(20) };
const PATIENT: EndTimeouts =
    EndTimeouts { grace: Duration::from_secs(20), kill: Duration::from_secs(20) };

/// A shell that leads a group or a session, and the pids of its children.
struct Tree {
    child: Child,
    session: ProcessSession,
    children: Vec<u32>,
}

impl Tree {
    /// Runs shell text that prints numbers of processes and then `up`.
    fn start(text: &str, in_session: bool) -> Self {
        let mut command = Command::new(if in_session { "setsid" } else { "sh" });
        if in_session {
            command.arg("sh");
        } else {
            command.process_group(0);
        }
        let mut child = command
            .args(["-c", text])
            .env("TEST_MARK", mark())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut children = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if line == "up" {
                break;
            }
            children.push(line.parse().unwrap());
        }
        let leader = ProcessId {
            pid: child.id(),
            start: start_time(child.id()).unwrap(),
            boot: boot_id().unwrap(),
        };
        let marks = vec![format!("TEST_MARK={}", mark()).into()];
        Self { child, session: ProcessSession { leader, marks }, children }
    }

    fn kill_leader_and_reap_it(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for pid in &self.children {
            let process = ProcessId {
                pid: *pid,
                start: start_time(*pid).unwrap_or_default(),
                boot: boot_id().unwrap_or_default(),
            };
            if let Ok(Some(handle)) = process.handle() {
                handle.kill().ok();
            }
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn mark() -> String {
    format!("{}", std::process::id())
}

#[tokio::test]
async fn a_process_is_asked_to_end_before_it_is_killed() {
    let mut tree = Tree::start("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done", false);
    assert_eq!(tree.session.end(PATIENT).await.unwrap(), SessionEnd::Ended);
    assert_eq!(tree.child.wait().unwrap().code(), Some(7));
}

#[tokio::test]
async fn a_process_that_ignores_the_request_is_killed() {
    let mut tree = Tree::start("trap '' TERM; echo up; while :; do sleep 0.01; done", false);
    assert_eq!(tree.session.end(QUICK).await.unwrap(), SessionEnd::Ended);
    assert_eq!(tree.child.wait().unwrap().code(), None);
}

#[tokio::test]
async fn children_end_with_it_in_a_group_and_in_a_session() {
    for in_session in [false, true] {
        let tree = Tree::start(
            "trap '' TERM; sleep 1000 & echo $!; (trap '' TERM; sleep 1000) & echo $!; echo up; wait; wait",
            in_session,
        );
        assert_eq!(tree.session.end(QUICK).await.unwrap(), SessionEnd::Ended);
        assert_eq!(tree.session.members().unwrap(), []);
        for pid in &tree.children {
            assert_eq!(start_time(*pid), None, "child {pid} is left");
        }
    }
}

#[tokio::test]
async fn children_in_groups_of_their_own_end_with_the_session() {
    // With job control each background command gets a group of its own.
    let tree = Tree::start("set -m; sleep 1000 & echo $!; echo up; wait", true);
    assert_eq!(tree.session.end(QUICK).await.unwrap(), SessionEnd::Ended);
    assert_eq!(start_time(tree.children[0]), None);
}

#[tokio::test]
async fn children_that_outlive_their_leader_are_found_by_their_marks() {
    let mut tree = Tree::start("sleep 1000 & echo $!; echo up; wait", true);
    tree.kill_leader_and_reap_it();
    assert!(start_time(tree.children[0]).is_some());

    let unmarked = ProcessSession { marks: Vec::new(), ..tree.session.clone() };
    assert_eq!(unmarked.end(QUICK).await.unwrap(), SessionEnd::Ended);
    let other = ProcessSession { marks: vec!["TEST_MARK=other".into()], ..tree.session.clone() };
    assert_eq!(other.end(QUICK).await.unwrap(), SessionEnd::Ended);
    assert!(
        start_time(tree.children[0]).is_some(),
        "a process that nothing proves to be ours was ended"
    );

    assert_eq!(tree.session.end(QUICK).await.unwrap(), SessionEnd::Ended);
    assert_eq!(start_time(tree.children[0]), None);
}

#[tokio::test]
async fn a_stopped_process_is_ended() {
    let mut tree = Tree::start("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done", false);
    let pid = rustix::process::Pid::from_child(&tree.child);
    rustix::process::kill_process(pid, Signal::STOP).unwrap();
    assert_eq!(tree.session.end(PATIENT).await.unwrap(), SessionEnd::Ended);
    assert_eq!(tree.child.wait().unwrap().code(), Some(7));
}

#[tokio::test]
async fn another_process_of_the_same_number_gets_no_signal() {
    let mut tree = Tree::start("trap 'exit 7' TERM; sleep 1000 & echo $!; echo up; wait", true);
    let start = tree.session.leader.start;
    let earlier = ProcessId { start: start - 1, ..tree.session.leader.clone() };
    let rebooted = ProcessId { boot: "another".into(), ..tree.session.leader.clone() };
    for leader in [earlier, rebooted] {
        let session = ProcessSession { leader, ..tree.session.clone() };
        assert_eq!(session.members().unwrap(), []);
        let both = [session.clone(), tree.session.clone()];
        assert_eq!(ProcessSession::living(&both).unwrap(), [false, true]);
        assert_eq!(session.end(QUICK).await.unwrap(), SessionEnd::Ended);
    }
    assert!(tree.session.leader.is_alive());
    assert!(start_time(tree.children[0]).is_some());
    assert!(tree.child.try_wait().unwrap().is_none());
}

#[tokio::test]
async fn what_is_already_gone_is_ended() {
    let mut tree = Tree::start("echo up; while :; do sleep 0.01; done", false);
    tree.kill_leader_and_reap_it();
    assert_eq!(tree.session.end(PATIENT).await.unwrap(), SessionEnd::Ended);
}
