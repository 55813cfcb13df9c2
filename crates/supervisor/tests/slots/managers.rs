//! A supervisor under systemd, and as the first process of a container.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use vestal_supervisor::SlotState;
use vestal_testkit::processes::state_of;
use vestal_testkit::{TEST_TIMEOUT, is_alive, living, parent_of, wait_for};

use crate::fixture::{Supervised, SupervisorFixture, send};

/// What a supervisor tells systemd, line by line.
struct Systemd(UnixDatagram);

impl Systemd {
    fn listen(fixture: &SupervisorFixture) -> Self {
        let socket = UnixDatagram::bind(fixture.root().join("notify")).unwrap();
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        Self(socket)
    }

    /// Waits for a line, and returns those before it.
    fn until(&self, wanted: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let mut bytes = [0; 4096];
            let count = self.0.recv(&mut bytes).unwrap();
            for line in std::str::from_utf8(&bytes[..count]).unwrap().lines() {
                if line == wanted {
                    return before;
                }
                before.push(line.to_owned());
            }
        }
    }
}

#[tokio::test]
async fn systemd_hears_that_it_is_ready_alive_and_stopping_and_is_asked_for_time() {
    let fixture = SupervisorFixture::new();
    fixture.profile("work", "");
    let systemd = Systemd::listen(&fixture);
    let mut command = fixture.command();
    command.env("NOTIFY_SOCKET", fixture.root().join("notify"));
    command.env("WATCHDOG_USEC", "200000");
    let mut supervisor = Supervised::spawn(command);
    let more_time = "EXTEND_TIMEOUT_USEC=90000000";
    systemd.until("READY=1");
    for _ in 0..3 {
        systemd.until("WATCHDOG=1");
    }
    // A child that takes its time to end is not a reason to kill the supervisor.
    fixture.start("work").await;
    send(supervisor.pid(), Signal::TERM);
    systemd.until("STOPPING=1");
    systemd.until(more_time);
    assert!(supervisor.finished().0.success());
}

/// Returns the command line that runs another as process 1 of a namespace.
fn as_first_process() -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "--pid", "--fork", "--mount-proc"]);
    command
}

#[tokio::test]
async fn as_process_1_of_a_namespace_it_reaps_orphans_and_ends_with_all_its_children() {
    let fixture = SupervisorFixture::new();
    let mark = vestal_testkit::marker();
    fixture.profile("work", &format!("family {mark}"));
    fixture.write("work", "stop_ms", "500");
    let ordinary = fixture.command();
    let mut command = as_first_process();
    command.arg(ordinary.get_program()).args(ordinary.get_args()).arg("--reaps");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut outside = Supervised::spawn(command);
    assert!(outside.is_ready(), "it ended at once");
    let first = wait_for("process 1", || {
        living(|pid| parent_of(pid) == Some(outside.pid())).first().copied()
    });
    fixture.start("work").await;
    // What it leaves when it is killed falls to process 1.
    let gateway = fixture.children()[0];
    send(gateway, Signal::KILL);
    fixture.until_state("work", SlotState::Running).await;
    vestal_testkit::until("nothing dead is left", || {
        all_below(first).iter().all(|pid| state_of(*pid) != Some('Z'))
    })
    .await;
    send(first, Signal::TERM);
    assert!(outside.finished().0.success());
    assert!(!is_alive(first));
    assert_eq!(fixture.children(), Vec::<u32>::new());
    assert_eq!(vestal_testkit::processes_with(&mark), Vec::<u32>::new());
}

/// Returns the children of a process, the dead ones too.
fn all_below(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}
