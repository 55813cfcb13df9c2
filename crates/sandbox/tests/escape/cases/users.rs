//! Users and their powers.

use std::collections::BTreeMap;
use std::process::{Child, Command as Process};

use vestal_sandbox::Command;

use crate::cell::{Cell, run_in};
use crate::support::{alive, marker, until};

/// Capabilities that commands may have where a sandbox has several users, by
/// their bits: what it takes to own files, to become another user of the
/// sandbox, and to end that one's processes.
const HARMLESS: u64 = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7;

pub(crate) async fn root_of_the_host_is_nobody_there(cell: &Cell) {
    let guests = cell.fixture.guests();
    assert!(!guests.is_empty());
    for map in ["uid_map", "gid_map"] {
        let written = std::fs::read_to_string(format!("/proc/{}/{map}", guests[0])).unwrap();
        // Inside, outside, how many; outside as the reader sees it.
        let zero = |line: &str| line.split_whitespace().nth(1) == Some("0");
        assert!(!written.is_empty());
        cell.expect_unreached(written.lines().any(zero), &written);
    }
}

pub(crate) async fn commands_have_no_power_and_gain_none(cell: &Cell) {
    let printed = cell.run("cat /proc/self/status").await;
    let status: BTreeMap<&str, &str> = printed
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name, value.trim()))
        .collect();
    assert_eq!((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"));
    let several_users = cell.has_several_users().await;
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let held = u64::from_str_radix(status[set], 16).unwrap();
        assert_eq!(held & !HARMLESS, 0, "{set}: {held:x}");
        // Where there is one user only there is nothing to be done to another.
        if !several_users {
            assert_eq!(held, 0, "{set}");
        }
    }
}

pub(crate) async fn set_uid_programs_give_nothing(cell: &Cell) {
    let text = "cd; chmod 711 .; cp attack powerful; chmod 4755 powerful; echo $PWD";
    let home = cell.run(text).await;
    cell.expect_refused(&[&format!("regain={}/powerful", home.trim())]).await;
}

/// Servers like `PostgreSQL` refuse to run as root.
pub(crate) async fn commands_can_be_somebody_else_than_root(cell: &Cell) {
    let text = "f=$(mktemp -u); setpriv --reuid 1 --regid 1 --clear-groups \
                sh -c 'id -u; id -G; : >$0' $f && stat -c '%u %g' $f; rm -f $f";
    assert_eq!(cell.run(text).await, "1\n1\n1 1\n");
}

pub(crate) async fn what_the_kernel_counts_for_a_user_is_not_used_up(cell: &Cell) {
    let sandbox = cell.another("greedy", &[]).await;
    // Nobody ever writes to the pipe, so it is held until it is ended.
    let text = "cd; mkfifo keep; ./attack hold-all 0<>keep > held";
    let job = sandbox.spawn(Command::shell(text)).await.unwrap();
    let held = || async { run_in(&sandbox, "cat ~/held").await == "held\n" };
    until("all is taken that can be had", held).await;
    let mut host = std::process::Command::new(cell.fixture.scratch("attack"));
    let left = host.arg("take-one-each").output().unwrap().stdout;
    assert_eq!(String::from_utf8(left).unwrap(), "take-one-each done\n");
    sandbox.kill(&job.id).await.unwrap();
}

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
