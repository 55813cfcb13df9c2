//! A child as the seam wants it. The file `behaviour` in its directory says how it is.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use tokio::signal::unix::{SignalKind, signal};
use vestal_supervisor::{PLANNED_STOP_VARIABLE, PlannedStop, READY_VARIABLE, announce_ready};

#[expect(clippy::disallowed_methods, reason = "a test's program has no settings")]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

fn write_state(dir: &Path, state: &str) {
    let text = format!("{{\"version\":1,\"gateway_state\":\"{state}\",\"exit_reason\":null}}");
    std::fs::write(dir.join("gateway_state.new"), text).unwrap();
    std::fs::rename(dir.join("gateway_state.new"), dir.join("gateway_state.json")).unwrap();
}

pub(crate) async fn run(dir: &Path) -> i32 {
    // Taken before anything else: two children at once are seen.
    let alone = File::create(dir.join("alone")).unwrap();
    if alone.try_lock().is_err() {
        std::fs::write(dir.join("doubled"), "").unwrap();
    }
    let mut starts = OpenOptions::new().append(true).create(true).open(dir.join("starts")).unwrap();
    writeln!(starts, "{}", std::process::id()).unwrap();
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    let mut user = signal(SignalKind::user_defined1()).unwrap();
    let behaviour = std::fs::read_to_string(dir.join("behaviour")).unwrap_or_default();
    let words: Vec<&str> = behaviour.split_whitespace().collect();
    let ready = || announce_ready(&variable(READY_VARIABLE)).unwrap();
    match words[..] {
        ["exit", code] => return code.parse().unwrap(),
        ["complain", code, about] => {
            eprintln!("error: {about}\n  what to do about it");
            return code.parse().unwrap();
        }
        ["silent"] => {}
        ["flood", bytes] => {
            ready();
            let (mut out, chunk) = (std::io::stdout().lock(), vec![b'x'; 64 << 10]);
            for _ in 0..bytes.parse::<usize>().unwrap() / chunk.len() {
                out.write_all(&chunk).unwrap();
            }
            out.flush().unwrap();
            std::fs::write(dir.join("flooded"), "").unwrap();
        }
        ["lines", count] => {
            for n in 0..count.parse::<u32>().unwrap() {
                println!("out {n} {}", "o".repeat(100));
                eprintln!("err {n} {}", "e".repeat(100));
            }
            ready();
        }
        ["family", mark] => {
            // One in its group that takes no notice of SIGTERM, and an orphan that does.
            let text =
                format!("trap '' TERM; (exec sleep {mark}) & while :; do sleep {mark}; done");
            let family = Command::new("sh").args(["-c", &text]).spawn().unwrap();
            // It is the group's from now on.
            drop(family);
            ready();
        }
        ["stubborn"] => {
            ready();
            loop {
                terminate.recv().await;
            }
        }
        [] => {
            write_state(dir, "running");
            ready();
        }
        _ => panic!("{behaviour}"),
    }
    tokio::select! {
        _ = terminate.recv() => {}
        _ = user.recv() => return 75,
    }
    let note = Path::new(&variable(PLANNED_STOP_VARIABLE)).to_owned();
    match PlannedStop::of_this_process(&note).unwrap() {
        Some(_) => {
            write_state(dir, "stopped");
            0
        }
        None => 1,
    }
}
