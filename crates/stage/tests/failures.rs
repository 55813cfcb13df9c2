//! Every failure is reported and leaves nothing.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod support;

use std::ffi::OsString;
use std::fs;

use support::{By, TestSandbox, assert_nothing_runs, bytes};
use vestal_testkit::files::Fifo;
use vestal_testkit::wait_until;
use vestal_wire::{Bind, Enclosure, Purpose, SandboxMount};

/// Breaks a plan in one way, with the start of the expected failure.
type Broken = (&'static str, fn(&TestSandbox, &mut Enclosure), &'static str);

const BROKEN: [Broken; 9] = [
    (
        "a source that is not there",
        |_, plan| plan.mounts.push(bind("/nonexistent/source", "/x")),
        "{\"step\":\"source\",\"target\":\"/nonexistent/source\",\"errno\":2,",
    ),
    (
        "a target with a detour",
        |sandbox, plan| plan.mounts.push(sandbox.bind("io", "/x/../y", false)),
        "{\"step\":\"target\",\"target\":\"/x/../y\",\"errno\":22,",
    ),
    (
        "layers without a disk",
        |sandbox, plan| {
            let layers = vestal_wire::OverlayDirs {
                lower: bytes("/usr"),
                shifted: false,
                upper: bytes("/proc"),
                work: bytes(sandbox.path("work")),
                hidden: Vec::new(),
                public_only: false,
            };
            plan.mounts.push(SandboxMount::Overlay { target: bytes("/layers"), layers });
        },
        "{\"step\":\"mount-layers\",\"target\":\"/layers\",\"errno\":",
    ),
    (
        "a cgroup that is not there",
        |_, plan| plan.cgroups.push(bytes("/nonexistent/cgroup.procs")),
        "{\"step\":\"cgroup\",\"target\":\"/nonexistent/cgroup.procs\",\"errno\":2,",
    ),
    (
        "a record that cannot be written",
        |_, plan| {
            if let Purpose::Serve { record, .. } = &mut plan.purpose {
                *record = bytes("/nonexistent/init.json");
            }
        },
        "{\"step\":\"record\",\"target\":\"/nonexistent/init.json\",\"errno\":2,",
    ),
    (
        "a filter that is none",
        |_, plan| plan.filters.push(vec![0xff; 8].into()),
        "{\"step\":\"seccomp\",\"target\":null,\"errno\":22,",
    ),
    (
        "a program that is not there",
        |_, plan| {
            if let Purpose::Serve { arguments, .. } = &mut plan.purpose {
                arguments[0] = bytes("/nonexistent/program");
            }
        },
        "{\"step\":\"exec\",\"target\":\"/nonexistent/program\",\"errno\":2,",
    ),
    (
        "a file where a directory is to be mounted",
        |sandbox, plan| plan.mounts.push(sandbox.bind("io", "/usr/bin/env", false)),
        "{\"step\":\"target\",\"target\":\"/usr/bin/env\",\"errno\":",
    ),
    (
        "a host name that is too long",
        |_, plan| plan.hostname = "x".repeat(100),
        "{\"step\":\"hostname\",\"target\":null,\"errno\":22,",
    ),
];

fn bind(source: &str, target: &str) -> SandboxMount {
    SandboxMount::Bind(Bind {
        source: bytes(source),
        target: bytes(target),
        read_only: true,
        recursive: false,
        shifted: false,
        identity: None,
        hidden: Vec::new(),
        public_only: false,
    })
}

#[test]
fn a_failure_names_its_step_and_leaves_nothing() {
    for by in By::all() {
        for (what, break_it, expected) in BROKEN {
            let sandbox = TestSandbox::new(by);
            let mut plan = sandbox.plan("echo ran");
            break_it(&sandbox, &mut plan);
            let (printed, code) = sandbox.start(&plan).output_and_code();
            // Root may remove what is in the way in layers, and an ordinary
            // user's are the host's.
            if what.starts_with("a file where") && by == By::Root {
                assert_eq!(printed, "ran\n", "{what}");
                continue;
            }
            assert!(
                printed.starts_with(&format!("error: {expected}")),
                "{by:?}, {what}: {printed}"
            );
            assert!(
                printed.ends_with("}\n") && printed.lines().count() == 1,
                "{by:?}, {what}: {printed}"
            );
            assert_eq!(code, Some(1), "{by:?}, {what}");
            // The result is written after the cleanup.
            assert_eq!(support::processes_of(&sandbox), [0_u32; 0], "{by:?}, {what}");
            assert!(!sandbox.record().exists(), "{by:?}, {what}");
            assert!(!sandbox.path("init.json.new").exists(), "{by:?}, {what}");
        }
    }
}

#[test]
fn an_invalid_plan_is_refused() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let plan = vestal_wire::encode(&sandbox.plan("echo ran")).unwrap();
        for bytes in [&plan[..plan.len() / 2], b"", b"plan"] {
            let (printed, code) = sandbox.start_by(sandbox.command(), bytes).output_and_code();
            assert!(printed.starts_with("error: {\"step\":\"plan\""), "{by:?}: {printed}");
            assert_eq!(code, Some(1));
        }
    }
}

#[test]
fn a_wrong_command_line_is_reported() {
    let wrong = [
        &["enclose"][..],
        &["enclose", "--plan-fd", "0", "--ready-fd", "0", "--hold-fd", "2"],
        &["within", "--plan-fd", "0"],
        &["other"],
    ];
    for arguments in wrong {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_vestal-stage"))
            .args(arguments.iter().map(OsString::from))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("usage:"), "{arguments:?}");
    }
}

#[test]
fn a_trial_builds_everything_and_leaves_nothing() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let mut plan = sandbox.plan("echo ran > /workspace/ran");
        plan.purpose = Purpose::Trial;
        let (printed, code) = sandbox.start(&plan).output_and_code();
        assert_eq!((printed.as_str(), code), ("{\"trial\":\"ok\"}\n", Some(0)), "{by:?}");
        assert_eq!(support::processes_of(&sandbox), [0_u32; 0], "{by:?}");
        assert!(!sandbox.record().exists() && !sandbox.path("workspace/ran").exists(), "{by:?}");
        // A trial fails at every step at which a sandbox would fail.
        let sandbox = TestSandbox::new(by);
        let mut plan = sandbox.plan("echo ran");
        plan.purpose = Purpose::Trial;
        plan.filters.push(vec![0xff; 8].into());
        let (printed, code) = sandbox.start(&plan).output_and_code();
        assert!(printed.starts_with("error: {\"step\":\"seccomp\""), "{by:?}: {printed}");
        assert_eq!(code, Some(1), "{by:?}");
    }
}

#[test]
fn a_first_process_that_is_not_recorded_ends_with_the_stage() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        // The stage blocks here until somebody reads.
        let mut pipe = sandbox.record().into_os_string();
        pipe.push(".new");
        Fifo::create(pipe);
        let plan = sandbox.plan("echo ran > /workspace/ran");
        let mut stage = sandbox.start(&plan);
        wait_until("the stage and its first process run", || {
            support::processes_of(&sandbox).len() == 2
        });
        stage.kill();
        drop(stage);
        assert_nothing_runs(&sandbox, "killed");
        assert!(!sandbox.record().exists() && !sandbox.path("workspace/ran").exists(), "{by:?}");
    }
}

#[cfg(feature = "failpoints")]
#[test]
fn a_death_at_any_step_leaves_nothing_or_a_recorded_sandbox() {
    for by in By::all() {
        for name in vestal_stage::failpoint::NAMES {
            let sandbox = TestSandbox::new(by);
            let plan = sandbox.plan("echo ran > /workspace/ran; exec sleep 1000");
            let stage = sandbox.start_failing(&plan, name);
            // The process of the stage ends.
            let own = stage.pid();
            wait_until("the stage is dead", || {
                vestal_testkit::processes::state_of(own) == Some('Z')
            });
            let recorded = sandbox.record().exists().then(|| stage.first());
            match recorded {
                // Only a released first process can be left, and it is recorded.
                Some(first) if name.starts_with("stage.enclose.") => support::end(first),
                // It had reported that it is ready; a guest that dies at once looks the
                // same.
                Some(_) if name == "stage.first.before-exec" => {}
                Some(_) => panic!("{by:?}, {name}: the record is left"),
                None => assert!(!sandbox.path("workspace/ran").exists(), "{by:?}, {name}"),
            }
            assert_nothing_runs(&sandbox, name);
            let printed = stage.printed();
            if name == "stage.first.before-exec" {
                assert_eq!(printed, "", "{by:?}");
            } else if name.starts_with("stage.first.") {
                assert!(
                    printed.starts_with("error: {\"step\":\"ended\""),
                    "{by:?}, {name}: {printed}"
                );
            }
            // Files that are left do not prevent another start.
            fs::remove_file(sandbox.record()).ok();
            assert_eq!(sandbox.run("echo again"), "again\n", "{by:?}, {name}");
        }
    }
}
