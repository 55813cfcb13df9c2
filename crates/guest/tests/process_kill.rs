//! The end of whole trees of processes.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod supervised;

use std::path::Path;
use std::time::{Duration, Instant};

use supervised::{Ran, Streams, Supervised, shell, var};
use vestal_guest::process::{SupervisorReport, WaitStatus, tree};
use vestal_testkit::processes::{state_of, with_variable};
use vestal_testkit::wait_until;

/// A job whose processes all carry a mark.
struct Marked {
    supervised: Supervised,
    streams: Option<Streams>,
    mark: String,
    directory: tempfile::TempDir,
}

impl Marked {
    fn start(name: &str, text: &str) -> Self {
        let mark = format!("VESTAL_TEST_MARK={name}-{}", std::process::id());
        let directory = tempfile::tempdir().unwrap();
        let mut launch = shell(text, directory.path());
        launch.job_env.push(var("VESTAL_TEST_MARK", mark.split_once('=').unwrap().1));
        let mut supervised = Supervised::new();
        let streams = Streams::new(b"");
        supervised.get().launch(&launch, streams.ends()).unwrap();
        assert!(matches!(supervised.report().unwrap(), SupervisorReport::Started { .. }));
        Self { supervised, streams: Some(streams), mark, directory }
    }

    fn wait_for(&self, count: usize) {
        wait_until("the tree has grown", || self.living().len() >= count);
    }

    fn wait_for_file(&self, name: &str) {
        let path = self.directory.path().join(name);
        wait_until(name, || path.exists());
    }

    fn living(&self) -> Vec<u32> {
        with_variable(&self.mark)
    }

    fn kill(&mut self) -> (Ran, Duration) {
        self.kill_within(Duration::ZERO)
    }

    /// Kills the job, whose processes have so long to end by themselves.
    fn kill_within(&mut self, grace: Duration) -> (Ran, Duration) {
        let begun = Instant::now();
        self.supervised.get().kill(grace).unwrap();
        let streams = self.streams.take().unwrap();
        let ran = self.supervised.finish(streams);
        (ran, begun.elapsed())
    }

    /// Kills the job and checks that nothing of it is left.
    fn kill_and_check(&mut self) -> Ran {
        let (ran, _) = self.kill();
        assert_eq!(self.living(), [0_u32; 0], "after Empty nothing may live");
        // The supervisor is as good as new.
        assert_eq!(self.supervised.run(&shell("echo on", Path::new("/"))).out(), "on\n");
        ran
    }
}

#[test]
fn a_killed_command_leaves_no_process() {
    let mut job = Marked::start("plain", "sleep 1000 & sleep 1000 | sleep 1000; echo no");
    job.wait_for(4);
    let ran = job.kill_and_check();
    assert_eq!((ran.status, ran.out().as_str()), (Some(WaitStatus::Signaled(9)), ""));
}

/// Longer than any test waits.
const AN_AGE: Duration = Duration::from_hours(1);

#[test]
fn a_killed_command_may_end_by_itself_first_and_nothing_follows_it() {
    let text = "(trap 'echo cleaned > log; exit 0' TERM; : > ready; while :; do sleep 0.01; done) & wait; echo no";
    let mut job = Marked::start("polite", text);
    job.wait_for_file("ready");
    let (ran, _) = job.kill_within(AN_AGE);
    assert_eq!(ran.out(), "");
    let log = std::fs::read_to_string(job.directory.path().join("log")).unwrap();
    assert_eq!(log, "cleaned\n");
    assert_eq!(job.living(), [0_u32; 0]);
}

#[test]
fn what_does_not_end_when_it_is_asked_is_killed() {
    let text = "trap '' TERM; (setsid sleep 1000 &); : > ready; while :; do sleep 0.01; done";
    let mut job = Marked::start("stubborn", text);
    job.wait_for_file("ready");
    let (ran, _) = job.kill_within(Duration::from_millis(50));
    assert_eq!(ran.status, Some(WaitStatus::Signaled(9)));
    assert_eq!(job.living(), [0_u32; 0]);
}

#[test]
fn the_end_of_a_killed_command_is_reported_when_nothing_of_it_is_left() {
    let text = "(trap '' TERM; : > ready; while :; do sleep 0.01; done) & wait; sleep 1000";
    let mut job = Marked::start("rest", text);
    job.wait_for_file("ready");
    job.supervised.get().kill(Duration::from_millis(50)).unwrap();
    let ended = job.supervised.report().unwrap();
    assert!(matches!(ended, SupervisorReport::Ended { .. }), "{ended:?}");
    assert_eq!(job.living(), [0_u32; 0]);
}

#[test]
fn a_second_kill_does_not_wait() {
    let mut job =
        Marked::start("twice", "trap ': > asked' TERM; : > ready; while :; do sleep 0.01; done");
    job.wait_for_file("ready");
    job.supervised.get().kill(AN_AGE).unwrap();
    job.wait_for_file("asked");
    let (ran, _) = job.kill_within(AN_AGE);
    assert_eq!(ran.status, Some(WaitStatus::Signaled(9)));
    assert_eq!(job.living(), [0_u32; 0]);
}

#[test]
fn thirty_processes_in_sessions_of_their_own_and_forked_twice_are_killed() {
    let text = "for i in $(seq 30); do (setsid sh -c 'sleep 1000 & sleep 1000' &) & done; wait; echo done > ready; sleep 1000";
    let mut job = Marked::start("setsid", text);
    job.wait_for(61);
    job.kill_and_check();
}

#[test]
fn a_fork_bomb_is_killed() {
    // Bounded by its own depth, since the test must not depend on a limit.
    let text = "bomb() { if [ $1 -gt 0 ]; then bomb $(($1 - 1)) & bomb $(($1 - 1)) & fi; wait; while :; do (:); done; }; : > ready; bomb 6";
    let mut job = Marked::start("bomb", text);
    job.wait_for(64);
    job.kill_and_check();
}

#[test]
fn a_chain_of_processes_that_fork_and_exit_is_killed() {
    let text = "cat > hop <<'EOF'\n: > hopped\n\"$0\" &\nEOF\nsed -i '1i #!/bin/sh' hop; chmod +x hop; setsid ./hop; sleep 1000";
    let mut job = Marked::start("chain", text);
    job.wait_for_file("hopped");
    job.kill_and_check();
}

#[test]
fn processes_that_ignore_or_catch_every_signal_are_killed() {
    let text = "trap '' TERM INT HUP QUIT; setsid bash -c 'trap \"\" TERM INT HUP QUIT TSTP CONT; while :; do sleep 0.01; done' & sleep 1000";
    let mut job = Marked::start("deaf", text);
    job.wait_for(3);
    job.kill_and_check();
}

#[test]
fn a_stopped_process_is_killed() {
    let mut job = Marked::start("stopped", "sleep 1000 & kill -STOP $!; : > ready; kill -STOP $$");
    job.wait_for_file("ready");
    job.kill_and_check();
}

#[test]
fn what_an_ended_command_left_behind_is_killed_too() {
    let mut job = Marked::start("left", "(setsid sleep 1000 &); (sleep 1000 &); exit 3");
    loop {
        if let SupervisorReport::Left { .. } = job.supervised.report().unwrap() {
            break;
        }
    }
    job.wait_for(2);
    job.kill_and_check();
}

#[test]
fn a_job_does_not_outlive_the_guest() {
    let mut job = Marked::start("orphaned", "(setsid sleep 1000 &); sleep 1000");
    // The shell becomes the last command of its text.
    job.wait_for(2);
    job.supervised.close();
    assert_eq!(job.living(), [0_u32; 0]);
}

#[test]
fn killing_a_job_spares_everybody_else() {
    let mut bystander = Marked::start("bystander", "sleep 1000 & sleep 1000");
    bystander.wait_for(3);
    let before = bystander.living();
    let mut job = Marked::start("victim", "sleep 1000 & setsid sleep 1000");
    job.wait_for(3);
    job.kill_and_check();
    assert_eq!(bystander.living(), before);
    assert!(before.iter().all(|pid| state_of(*pid).unwrap() != 'T'));
    bystander.kill_and_check();
}

#[test]
fn killing_nothing_is_no_error() {
    let mut supervised = Supervised::new();
    supervised.get().kill(Duration::ZERO).unwrap();
    supervised.get().signal(15).unwrap();
    assert_eq!(supervised.run(&shell("echo on", Path::new("/"))).out(), "on\n");
}

#[test]
fn descendants_are_found_across_sessions() {
    let mut job = Marked::start("walk", "setsid sleep 1000 & sleep 1000");
    job.wait_for(3);
    let mut found = tree::descendants(job.supervised.pid());
    let mut living = job.living();
    found.sort_unstable();
    living.sort_unstable();
    assert_eq!(found, living);
    job.kill_and_check();
}
