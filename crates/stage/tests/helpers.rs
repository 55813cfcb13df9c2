//! User maps written by the setuid helpers newuidmap and newgidmap.
//!
//! Tests use their own /etc/subuid and /etc/subgid; those of the machine are not touched.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use support::{By, TestSandbox, bytes};
use vestal_testkit::namespaces::ORDINARY_USER as ORDINARY;
use vestal_wire::{IdRange, Mapping, Purpose, UserMapping};

/// The first subordinate id of the user.
const SUBORDINATE: u32 = 1_500_000;

/// Number of subordinate ids.
const COUNT: u32 = 65_536;

fn users() -> UserMapping {
    let ranges = || {
        vec![
            IdRange { inside: 0, outside: ORDINARY, count: 1 },
            IdRange { inside: 1, outside: SUBORDINATE, count: COUNT - 1 },
        ]
    };
    let mapping = Mapping::Helpers {
        newuidmap: bytes("/usr/bin/newuidmap"),
        newgidmap: bytes("/usr/bin/newgidmap"),
    };
    UserMapping { uids: ranges(), gids: ranges(), mapping }
}

/// The stage as an ordinary user with subordinate ids.
fn command(sandbox: &TestSandbox, belonging: u32) -> Command {
    let lists = [
        ("passwd", format!("root:x:0:0::/:/bin/sh\nada:x:{ORDINARY}:{ORDINARY}::/:/bin/sh\n")),
        ("group", format!("root:x:0:\nada:x:{ORDINARY}:\n")),
        ("subuid", format!("ada:{SUBORDINATE}:{belonging}\n")),
        ("subgid", format!("ada:{SUBORDINATE}:{belonging}\n")),
    ];
    for (name, content) in lists {
        fs::write(sandbox.path(name), content).unwrap();
    }
    let script = "for f in passwd group subuid subgid; do \
            mount --bind \"$1/$f\" /etc/$f || exit; \
        done; shift; exec setpriv --reuid 54321 --regid 54321 --groups 54400 \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(sandbox.dir.path());
    command.arg(env!("CARGO_BIN_EXE_vestal-stage"));
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::piped());
    command
}

#[test]
fn a_user_with_subordinate_numbers_has_more_than_one_user_in_a_sandbox() {
    if !By::all().contains(&By::Root) {
        return;
    }
    let sandbox = TestSandbox::new(By::Ordinary);
    let mut plan = sandbox.plan(
        "id -u; id -G; touch /workspace/f /workspace/g; chown 33:44 /workspace/f; \
         stat -c '%u:%g' /workspace/f; tr -s ' ' < /proc/self/uid_map; stat -c '%u:%g' /dev/pts/ptmx",
    );
    plan.users = users();
    plan.capabilities = 0xfb;
    let plan = vestal_wire::encode(&plan).unwrap();
    let printed = sandbox.start_by(command(&sandbox, COUNT), &plan).printed();
    let expected = format!("0\n0\n33:44\n 0 {ORDINARY} 1\n 1 {SUBORDINATE} {}\n0:0\n", COUNT - 1);
    assert_eq!(printed, expected);
    let made = fs::metadata(sandbox.path("workspace/f")).unwrap();
    assert_eq!((made.uid(), made.gid()), (SUBORDINATE + 32, SUBORDINATE + 43));
    assert_eq!(fs::metadata(sandbox.path("workspace/g")).unwrap().uid(), ORDINARY);
}

#[test]
fn ids_of_another_user_are_refused_with_the_helpers_message() {
    if !By::all().contains(&By::Root) {
        return;
    }
    let sandbox = TestSandbox::new(By::Ordinary);
    let mut plan = sandbox.plan("echo ran");
    plan.users = users();
    plan.purpose = Purpose::Trial;
    let plan = vestal_wire::encode(&plan).unwrap();
    let (printed, code) = sandbox.start_by(command(&sandbox, 10), &plan).output_and_code();
    let expected = "error: {\"step\":\"map-users\",\"target\":\"/usr/bin/newuidmap\"";
    assert!(printed.starts_with(expected) && printed.contains("not allowed"), "{printed}");
    assert_eq!(code, Some(1));
    assert_eq!(support::processes_of(&sandbox), [0_u32; 0]);
}
