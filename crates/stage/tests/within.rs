//! A program runs as the users of a sandbox.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod support;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;

use support::{By, TestSandbox};
use vestal_wire::UserMapping;

fn run(sandbox: &TestSandbox, users: &UserMapping, script: &str) -> (String, String, Option<i32>) {
    let mut command = sandbox.command();
    command.args(["within", "--plan-fd", "0", "--", "/bin/sh", "-c", script]);
    command.env("PATH", "/usr/bin:/bin").current_dir(sandbox.path("workspace"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&vestal_wire::encode(users).unwrap()).unwrap();
    let (mut printed, mut wrong) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut wrong).unwrap();
    (printed, wrong, child.wait().unwrap().code())
}

#[test]
fn a_program_is_root_of_the_plans_users_and_keeps_its_place() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let dir = sandbox.make("made", sandbox.owner());
        let script = format!(
            "id -u; id -g; pwd; cut -c1-10 /proc/self/uid_map | tr -d ' '; cd {} && \
             touch mine && exit 7",
            dir.display()
        );
        let (printed, wrong, code) = run(&sandbox, &by.users(), &script);
        let place = sandbox.path("workspace");
        assert_eq!(printed, format!("0\n0\n{}\n0\n", place.display()), "{by:?}: {wrong}");
        assert_eq!(code, Some(7), "{by:?}: {wrong}");
        let owner = fs::metadata(dir.join("mine")).unwrap().uid();
        assert_eq!(Some(owner), sandbox.owner().or(Some(owner)), "{by:?}");
    }
}

#[test]
fn users_that_cannot_be_mapped_are_refused() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let mut users = by.users();
        users.uids[0].outside = 0;
        let (printed, wrong, code) = run(&sandbox, &users, "echo ran");
        assert_eq!((printed.as_str(), code), ("", Some(1)), "{by:?}");
        assert!(wrong.starts_with("error: {\"step\":\"plan\""), "{by:?}: {wrong}");
    }
    // Ids of other users, which only root can map.
    let sandbox = TestSandbox::new(By::Ordinary);
    let mut users = By::Ordinary.users();
    users.uids[0].outside += 1;
    let (printed, wrong, code) = run(&sandbox, &users, "echo ran");
    assert_eq!((printed.as_str(), code), ("", Some(1)));
    assert!(wrong.starts_with("error: {\"step\":\"map-users\""), "{wrong}");
}
