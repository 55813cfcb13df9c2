//! The guest as the first process of a container: it reaps, and it can be stopped.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use support::{TestGuest, shell};
use vestal_testkit::wait_until;

#[test]
fn the_first_process_reaps_whatever_is_left_to_it() {
    let guest = TestGuest::as_pid_one();
    let mut client = guest.client();
    let printed = client.run(shell("who", "tr '\\0' ' ' < /proc/1/cmdline"));
    assert!(String::from_utf8_lossy(&printed.0.stdout).contains("serve"), "{printed:?}");
    // A supervisor that is killed leaves its job's processes to pid 1.
    client.background(shell("orphans", "for i in 1 2 3; do setsid sleep 1000 & done; sleep 1000"));
    let kill = "kill -9 $(tr ' ' '\\n' < /proc/1/task/1/children | grep -vx $PPID)";
    client.run(shell("kill", kill));
    let count = "cat /proc/[0-9]*/stat 2>/dev/null | grep -c '(sleep)\\|) Z '; true";
    for attempt in 0.. {
        let left = client.run(shell(&format!("count-{attempt}"), count));
        if left.0.stdout == b"0\n" {
            break;
        }
        assert!(attempt < 2000, "orphans or zombies are left: {left:?}");
    }
}

#[test]
fn the_first_process_ends_in_order_on_sigterm() {
    let mut guest = TestGuest::as_pid_one();
    let mut client = guest.client();
    client.background(shell(
        "job",
        "trap 'echo bye > ended; exit' TERM; : > ready; while :; do sleep 0.05; done",
    ));
    wait_until("it is ready", || guest.work_dir().join("ready").exists());
    let children = format!("/proc/{0}/task/{0}/children", guest.pid());
    let first: i32 = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(first).unwrap(), Signal::TERM).unwrap();
    assert!(guest.wait().success());
    assert_eq!(std::fs::read(guest.work_dir().join("ended")).unwrap(), b"bye\n");
    assert!(!guest.socket().exists());
}

#[cfg(feature = "failpoints")]
#[test]
fn the_first_process_dies_at_a_failpoint_although_it_cannot_kill_itself() {
    let mut guest = TestGuest::as_pid_one_with(Some("guest.start.after-ready"));
    assert!(!guest.wait().success());
    assert!(guest.socket().exists());
}
