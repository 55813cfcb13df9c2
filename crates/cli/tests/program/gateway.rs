//! Gateways as an operator meets them. What a gateway itself does is tested elsewhere.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::Signal;

use crate::support::{World, finish, is_alive};

#[test]
fn a_home_has_one_supervisor_which_says_who_it_is() {
    let world = World::new();
    let mut first = world.start(["supervise"]);
    assert!(first.error_line().contains("supervising"));
    let status = world.vestal(["gateway", "status", "--json"]).exits(1).json();
    assert_eq!(status["manager"]["kind"], "supervisor");
    let pid = status["manager"]["pid"].to_string();
    let shown = world.vestal(["gateway", "status"]).exits(1);
    assert!(
        shown.text().starts_with(&format!("Manager: vestal supervise (pid {pid})\n")),
        "{shown:?}"
    );
    assert!(shown.stderr.contains("to start it: vestal gateway start"), "{shown:?}");
    let second = world.vestal(["supervise"]).exits(1);
    assert!(
        second.stderr.contains(&format!("supervised already by process {pid} on ")),
        "{second:?}"
    );
    assert!(is_alive(&pid));
    // A profile that is made has a slot, without a word to the supervisor.
    world.vestal(["profile", "create", "work"]).exits(0);
    world.vestal(["-p", "work", "gateway", "stop"]).exits(0);
    let listed = world.vestal(["gateway", "list"]).exits(0).text();
    assert!(listed.contains("default") && listed.contains("work"), "{listed}");
    world.vestal(["profile", "delete", "-y", "work"]).exits(0);
    world.vestal(["-p", "work", "gateway", "stop"]).exits(1);
    first.signal(Signal::TERM);
    assert_eq!(first.end().0, 0);
    assert!(!is_alive(&pid));
    let log = fs::read_to_string(world.home().join("logs/container-boot.log")).unwrap();
    let decisions: Vec<&str> = log.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(
        decisions,
        [
            "profile=default prior_state=missing action=registered",
            "profile=work prior_state=missing action=registered",
        ]
    );
}

#[test]
fn a_start_without_a_supervisor_starts_one_that_outlives_it() {
    let world = World::new();
    // Whether the gateway itself comes up is not the matter here.
    world.vestal(["gateway", "start"]);
    let status = world.vestal(["gateway", "status", "--json"]).json();
    assert_eq!(status["manager"]["kind"], "supervisor");
    let pid = status["manager"]["pid"].to_string();
    assert!(is_alive(&pid));
    // Another start uses the same one.
    world.vestal(["gateway", "start"]);
    let again = world.vestal(["gateway", "status", "--json"]).json();
    assert_eq!(again["manager"]["pid"].to_string(), pid);
    world.vestal(["gateway", "stop", "--all"]).exits(0);
    world.vestal(["supervise", "--stop"]).exits(0);
    assert!(!is_alive(&pid));
    let none = world.vestal(["gateway", "status"]).exits(1).text();
    assert!(none.starts_with("Manager: none\n"), "{none}");
    world.vestal(["supervise", "--stop"]).exits(1);
}

#[test]
fn a_stop_without_a_supervisor_keeps_the_gateway_down() {
    let world = World::new();
    let stopped = world.vestal(["gateway", "stop"]).exits(0).text();
    assert_eq!(stopped, "gateway default was not running\n");
    let desired = fs::read_to_string(world.home().join("gateway_desired.json")).unwrap();
    assert!(desired.contains("\"desired\":\"stopped\""), "{desired}");
    let mut inside = world.command(["gateway", "stop"]);
    inside.env("VESTAL_SUPERVISED_RUN", "1");
    let refused = finish(inside.spawn().unwrap()).exits(1);
    assert!(refused.stderr.contains("this command runs inside a gateway"), "{refused:?}");
}

/// Makes a `systemctl` that notes how it is called.
fn fake_systemctl(world: &World) -> String {
    let dir = world.work().join("bin");
    fs::create_dir(&dir).unwrap();
    let script = dir.join("systemctl");
    let calls = world.work().join("calls");
    fs::write(&script, format!("#!/bin/sh\necho \"$*\" >> {}\n", calls.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", dir.display())
}

#[test]
fn systemd_gets_one_unit_for_the_home() {
    let world = World::new();
    let path = fake_systemctl(&world);
    let call = |words: &[&str]| finish(world.command(words).env("PATH", &path).spawn().unwrap());
    let unit = call(&["gateway", "install", "--json"]).exits(0).json();
    let (name, file) = (unit["unit"].as_str().unwrap(), unit["path"].as_str().unwrap());
    assert!(Path::new(file).starts_with(world.user().join(".config/systemd/user")), "{file}");
    let text = fs::read_to_string(file).unwrap();
    let home = world.home().display().to_string();
    assert!(text.contains(&format!("Environment=\"VESTAL_HOME={home}\"")), "{text}");
    assert!(text.contains("\" \"supervise\"\n") && text.contains("Type=notify"), "{text}");
    call(&["gateway", "uninstall"]).exits(0);
    assert!(!Path::new(file).exists());
    call(&["gateway", "uninstall"]).exits(1);
    let calls = fs::read_to_string(world.work().join("calls")).unwrap();
    let expected = [
        "--user --version".to_owned(),
        "--user daemon-reload".to_owned(),
        format!("--user enable --now {name}"),
        format!("--user disable --now {name}"),
        "--user daemon-reload".to_owned(),
    ];
    assert_eq!(calls.lines().collect::<Vec<_>>(), expected);
    // A supervisor that has the home already would keep the service from starting.
    let mut supervisor = world.start(["supervise"]);
    assert!(supervisor.error_line().contains("supervising"));
    let refused = call(&["gateway", "install"]).exits(1);
    assert!(refused.stderr.contains("vestal supervise --stop"), "{refused:?}");
    supervisor.signal(Signal::INT);
    assert_eq!(supervisor.end().0, 0);
}
