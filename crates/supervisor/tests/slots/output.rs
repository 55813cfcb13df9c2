//! What children print, and what they leave behind.

use rustix::process::Signal;
use vestal_supervisor::SlotState;
use vestal_testkit::{is_alive, marker, processes_with, until};

use crate::fixture::{Supervised, SupervisorFixture, send};

#[tokio::test]
async fn no_line_is_lost_or_torn_under_load() {
    let fixture = SupervisorFixture::new();
    let count = 20_000;
    fixture.profile("loud", &format!("lines {count}"));
    fixture.profile("noisy", &format!("lines {count}"));
    let mut supervisor = fixture.supervise();
    let (loud, noisy) = tokio::join!(fixture.start("loud"), fixture.start("noisy"));
    assert_eq!((loud.error, noisy.error), (None, None));
    for name in ["loud", "noisy"] {
        fixture.stop(name).await;
        let log = fixture.log(name);
        for (stream, filler) in [("out", "o"), ("err", "e")] {
            let begin = format!("{stream} ");
            let lines: Vec<&String> = log.iter().filter(|line| line.starts_with(&begin)).collect();
            let expected: Vec<String> =
                (0..count).map(|n| format!("{stream} {n} {}", filler.repeat(100))).collect();
            assert_eq!(lines, expected.iter().collect::<Vec<_>>());
        }
        let dir = fixture.root().join("logs/gateways").join(name);
        let files: Vec<u64> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .collect();
        assert!((2..=10).contains(&files.len()), "{files:?}");
        assert!(files.iter().all(|size| *size <= 1_000_000), "{files:?}");
    }
    assert!(supervisor.terminate().success());
    // Whole lines of two children in one stream, each after the name of its slot.
    let printed = String::from_utf8(supervisor.printed()).unwrap();
    for name in ["loud", "noisy"] {
        let first = format!("{name}: out 0 {}", "o".repeat(100));
        assert!(printed.lines().any(|line| line == first), "{name}");
    }
    let whole = |line: &str| {
        line.starts_with("supervisor: ")
            || ["loud: supervisor: ", "noisy: supervisor: "].iter().any(|own| line.starts_with(own))
            || line.ends_with(&"o".repeat(100))
            || line.ends_with(&"e".repeat(100))
    };
    assert!(printed.lines().all(whole));
}

#[tokio::test]
async fn a_child_that_prints_without_end_costs_little_memory() {
    let fixture = SupervisorFixture::new();
    fixture.profile("flood", &format!("flood {}", 200 << 20));
    let mut supervisor = fixture.supervise();
    fixture.start("flood").await;
    until("all was printed", || fixture.dir("flood").join("flooded").exists()).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", supervisor.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 64 << 10, "{peak} KiB");
    // And others are heard meanwhile.
    assert_eq!(fixture.status("flood").await.state, SlotState::Running);
    assert!(supervisor.terminate().success());
}

#[tokio::test]
async fn as_process_1_it_reaps_what_lost_its_parent() {
    let fixture = SupervisorFixture::new();
    let mark = marker();
    fixture.profile("work", &format!("family {mark}"));
    let mut command = fixture.command();
    command.arg("--reaps");
    let mut supervisor = Supervised::spawn(command);
    assert!(supervisor.is_ready());
    // A process that leaves the group of the child, as a sandbox does, and then loses its parent.
    fixture.start("work").await;
    until("the family is there", || processes_with(&format!("sleep\0{mark}")).len() == 2).await;
    let family = processes_with(&format!("sleep\0{mark}"));
    send(fixture.starts("work")[0], Signal::KILL);
    let is_there = |pid: &u32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    until("they are gone, not even dead", || !family.iter().any(is_there)).await;
    assert!(family.iter().all(|pid| !is_alive(*pid)));
    assert!(supervisor.terminate().success());
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}
