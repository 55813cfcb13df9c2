//! Logs as an operator reads them. How they are written, merged and followed is tested in
//! `vestal-logs`.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::World;

/// Writes a file below the logs of the home.
fn write_log(world: &World, file: &str, lines: &[&str]) {
    let path = world.home().join("logs").join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

fn read_log(world: &World, file: &str) -> String {
    fs::read_to_string(world.home().join("logs").join(file)).unwrap_or_default()
}

#[test]
fn logs_are_read_across_rotation_and_by_age() {
    let world = World::new();
    write_log(&world, "gateways/default/current.2", &["2026-01-01T00:00:00.000Z one"]);
    write_log(&world, "gateways/default/current.1", &["2026-01-01T00:00:01.000Z two"]);
    write_log(&world, "gateways/default/current", &["2099-01-01T00:00:02.000Z three"]);
    let all = world.vestal(["gateway", "logs"]).exits(0).text();
    assert_eq!(
        all,
        "2026-01-01T00:00:00.000Z one\n2026-01-01T00:00:01.000Z two\n2099-01-01T00:00:02.000Z three\n"
    );
    let last = world.vestal(["gateway", "logs", "-n", "1", "--all"]).exits(0).text();
    assert_eq!(last, "2099-01-01T00:00:02.000Z default: three\n");
    for since in ["1h", "2027-01-01", "2027-01-01T00:00:00Z"] {
        let young = world.vestal(["gateway", "logs", "--since", since, "--json"]).exits(0).text();
        assert_eq!(
            young,
            "{\"profile\":\"default\",\"at\":\"2099-01-01T00:00:02.000Z\",\"line\":\"three\",\"source\":\"gateway\",\
             \"level\":null,\"session\":null,\"target\":null,\"message\":\"three\"}\n"
        );
    }
    let mut follower = world.start(["gateway", "logs", "-f", "-n", "1"]);
    assert_eq!(follower.line(), "2099-01-01T00:00:02.000Z three");
    let dir = world.home().join("logs/gateways/default");
    fs::rename(dir.join("current.1"), dir.join("current.3")).unwrap();
    fs::rename(dir.join("current"), dir.join("current.1")).unwrap();
    write_log(&world, "gateways/default/current", &["2099-01-01T00:00:03.000Z four"]);
    assert_eq!(follower.line(), "2099-01-01T00:00:03.000Z four");
    follower.signal(Signal::KILL);
}

#[test]
fn whoever_follows_all_logs_sees_those_of_a_profile_that_is_made_meanwhile() {
    let world = World::new();
    write_log(&world, "gateways/default/current", &["2026-01-01T00:00:00.000Z one"]);
    let mut follower = world.start(["gateway", "logs", "--all", "-f"]);
    assert_eq!(follower.line(), "2026-01-01T00:00:00.000Z default: one");
    world.vestal(["profile", "create", "work"]).exits(0);
    write_log(&world, "gateways/work/current", &["2099-01-01T00:00:00.000Z two"]);
    assert_eq!(follower.line(), "2099-01-01T00:00:00.000Z work: two");
    follower.signal(Signal::KILL);
}

#[test]
fn the_logs_of_a_profile_are_one_log() {
    let world = World::new();
    let info = "2026-01-01T00:00:01.000Z INFO [20260101-000000-abc123] vestal_agent: turn started";
    let warning =
        ["2026-01-01T00:00:02.000Z WARN [20260101-000000-abc123] vestal_agent: two", "    lines"];
    write_log(&world, "agent.log", &[info, warning[0], warning[1]]);
    write_log(&world, "errors.log", &warning);
    // What a supervisor noted of the same.
    let noted: Vec<String> = ["supervisor: started as process 7", warning[0], warning[1]]
        .iter()
        .map(|line| format!("2026-01-01T00:00:02.500Z {line}"))
        .collect();
    let noted: Vec<&str> = noted.iter().map(String::as_str).collect();
    write_log(&world, "gateways/default/current", &noted);
    let boot = [
        "2026-01-01T00:00:00.000Z profile=default prior_state=running action=started",
        "2026-01-01T00:00:00.000Z profile=work prior_state=missing action=failed reason=damaged",
    ];
    write_log(&world, "container-boot.log", &boot);
    let read = |more: &[&str]| {
        let words = ["gateway", "logs"].iter().chain(more);
        world.vestal(words).exits(0).text()
    };
    let lines = |lines: &[&str]| lines.join("\n") + "\n";
    let started = "2026-01-01T00:00:02.500Z supervisor: started as process 7";
    assert_eq!(read(&[]), lines(&[boot[0], info, warning[0], warning[1], started]));
    assert_eq!(read(&["--level", "warn"]), lines(&warning));
    assert_eq!(read(&["--session", "abc123", "-n", "1"]), lines(&warning));
    assert_eq!(read(&["--source", "boot,supervisor"]), lines(&[boot[0]]));
    let failed: Value =
        serde_json::from_str(&read(&["--all", "--level", "error", "--json"])).unwrap();
    assert_eq!((&failed["profile"], &failed["level"]), (&"work".into(), &"error".into()));
    assert_eq!(
        read(&["--all", "--level", "error"]),
        lines(&[&boot[1].replacen(' ', " work: ", 1)])
    );
    // Whoever looks for it under the jobs is told where it is.
    let told = world.vestal(["logs", "--level", "warn"]).exits(2).stderr;
    assert!(told.contains("vestal gateway logs"), "{told}");
    world.vestal(["gateway", "logs", "--source", "nothing"]).exits(2);
}

#[test]
fn what_a_supervised_gateway_prints_is_in_its_logs_and_a_healthy_start_is_no_warning() {
    let world = World::new();
    let mut supervisor = world.start(["supervise"]);
    assert!(supervisor.error_line().contains("supervising"));
    supervisor.discard_output();
    world.vestal(["gateway", "start"]).exits(0);
    world.vestal(["gateway", "stop"]).exits(0);
    assert_eq!(read_log(&world, "errors.log"), "");
    let warnings = world.vestal(["gateway", "logs", "--level", "warn"]).exits(0).text();
    assert_eq!(warnings, "");
    // One that cannot start says so as an error, in all of the logs.
    fs::write(world.home().join("config.yaml"), "api_server:\n  enabled: true\n").unwrap();
    world.vestal(["gateway", "start"]).exits(1);
    let errors = read_log(&world, "errors.log");
    assert_eq!(
        errors.lines().filter(|line| line.contains(" ERROR [-] vestal: ")).count(),
        1,
        "{errors}"
    );
    let printed = read_log(&world, "gateways/default/current");
    let error = errors.lines().next().unwrap();
    assert!(printed.contains(error) && read_log(&world, "agent.log").contains(error), "{printed}");
    let shown = world.vestal(["gateway", "logs", "--level", "error"]).exits(0).text();
    assert_eq!(shown, errors);
    supervisor.signal(Signal::TERM);
    assert_eq!(supervisor.end().0, 0);
}
