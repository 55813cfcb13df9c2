//! Logs as an operator reads them. How they are written, merged and followed is tested in
//! `vestal-logs`.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::ProgramFixture;

/// Writes a file below the logs of the home.
fn write_log(fixture: &ProgramFixture, file: &str, lines: &[&str]) {
    let path = fixture.home().join("logs").join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

fn read_log(fixture: &ProgramFixture, file: &str) -> String {
    fs::read_to_string(fixture.home().join("logs").join(file)).unwrap_or_default()
}

#[test]
fn logs_are_read_across_rotation_and_by_age() {
    let fixture = ProgramFixture::new();
    write_log(&fixture, "gateways/default/current.2", &["2026-01-01T00:00:00.000Z one"]);
    write_log(&fixture, "gateways/default/current.1", &["2026-01-01T00:00:01.000Z two"]);
    write_log(&fixture, "gateways/default/current", &["2099-01-01T00:00:02.000Z three"]);
    let all = fixture.vestal(["gateway", "logs"]).exits(0).text();
    assert_eq!(
        all,
        "2026-01-01T00:00:00.000Z one\n2026-01-01T00:00:01.000Z two\n2099-01-01T00:00:02.000Z three\n"
    );
    let last = fixture.vestal(["gateway", "logs", "-n", "1", "--all"]).exits(0).text();
    assert_eq!(last, "2099-01-01T00:00:02.000Z default: three\n");
    for since in ["1h", "2027-01-01", "2027-01-01T00:00:00Z"] {
        let young = fixture.vestal(["gateway", "logs", "--since", since, "--json"]).exits(0).text();
        assert_eq!(
            young,
            "{\"profile\":\"default\",\"at\":\"2099-01-01T00:00:02.000Z\",\"line\":\"three\",\"source\":\"gateway\",\
             \"level\":null,\"session\":null,\"target\":null,\"message\":\"three\"}\n"
        );
    }
    let mut follower = fixture.start(["gateway", "logs", "-f", "-n", "1"]);
    assert_eq!(follower.line(), "2099-01-01T00:00:02.000Z three");
    let dir = fixture.home().join("logs/gateways/default");
    fs::rename(dir.join("current.1"), dir.join("current.3")).unwrap();
    fs::rename(dir.join("current"), dir.join("current.1")).unwrap();
    write_log(&fixture, "gateways/default/current", &["2099-01-01T00:00:03.000Z four"]);
    assert_eq!(follower.line(), "2099-01-01T00:00:03.000Z four");
    follower.signal(Signal::KILL);
}

#[test]
fn following_all_logs_includes_a_profile_that_is_created_meanwhile() {
    let fixture = ProgramFixture::new();
    write_log(&fixture, "gateways/default/current", &["2026-01-01T00:00:00.000Z one"]);
    let mut follower = fixture.start(["gateway", "logs", "--all", "-f"]);
    assert_eq!(follower.line(), "2026-01-01T00:00:00.000Z default: one");
    fixture.vestal(["profile", "create", "work"]).exits(0);
    write_log(&fixture, "gateways/work/current", &["2099-01-01T00:00:00.000Z two"]);
    assert_eq!(follower.line(), "2099-01-01T00:00:00.000Z work: two");
    follower.signal(Signal::KILL);
}

#[test]
fn the_logs_of_a_profile_are_one_log() {
    let fixture = ProgramFixture::new();
    let info = "2026-01-01T00:00:01.000Z INFO [20260101-000000-abc123] vestal_agent: turn started";
    let warning =
        ["2026-01-01T00:00:02.000Z WARN [20260101-000000-abc123] vestal_agent: two", "    lines"];
    write_log(&fixture, "agent.log", &[info, warning[0], warning[1]]);
    write_log(&fixture, "errors.log", &warning);
    // What a supervisor noted of the same.
    let noted: Vec<String> = ["supervisor: started as process 7", warning[0], warning[1]]
        .iter()
        .map(|line| format!("2026-01-01T00:00:02.500Z {line}"))
        .collect();
    let noted: Vec<&str> = noted.iter().map(String::as_str).collect();
    write_log(&fixture, "gateways/default/current", &noted);
    let boot = [
        "2026-01-01T00:00:00.000Z profile=default prior_state=running action=started",
        "2026-01-01T00:00:00.000Z profile=work prior_state=missing action=failed reason=damaged",
    ];
    write_log(&fixture, "container-boot.log", &boot);
    let read = |more: &[&str]| {
        let words = ["gateway", "logs"].iter().chain(more);
        fixture.vestal(words).exits(0).text()
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
    // A person who looks for it under the jobs gets a hint where it is.
    let reported = fixture.vestal(["logs", "--level", "warn"]).exits(2).stderr;
    assert!(reported.contains("vestal gateway logs"), "{reported}");
    fixture.vestal(["gateway", "logs", "--source", "nothing"]).exits(2);
}

#[test]
fn what_a_supervised_gateway_prints_is_in_its_logs_and_a_healthy_start_is_no_warning() {
    let fixture = ProgramFixture::new();
    let mut supervisor = fixture.start(["supervise"]);
    assert!(supervisor.error_line().contains("supervising"));
    supervisor.discard_output();
    fixture.vestal(["gateway", "start"]).exits(0);
    fixture.vestal(["gateway", "stop"]).exits(0);
    assert_eq!(read_log(&fixture, "errors.log"), "");
    let warnings = fixture.vestal(["gateway", "logs", "--level", "warn"]).exits(0).text();
    assert_eq!(warnings, "");
    // One that cannot start says so as an error, in all of the logs.
    fs::write(fixture.home().join("config.yaml"), "api_server:\n  enabled: true\n").unwrap();
    fixture.vestal(["gateway", "start"]).exits(1);
    let errors = read_log(&fixture, "errors.log");
    assert_eq!(
        errors.lines().filter(|line| line.contains(" ERROR [-] vestal: ")).count(),
        1,
        "{errors}"
    );
    let printed = read_log(&fixture, "gateways/default/current");
    let error = errors.lines().next().unwrap();
    assert!(
        printed.contains(error) && read_log(&fixture, "agent.log").contains(error),
        "{printed}"
    );
    let shown = fixture.vestal(["gateway", "logs", "--level", "error"]).exits(0).text();
    assert_eq!(shown, errors);
    supervisor.signal(Signal::TERM);
    assert_eq!(supervisor.end().0, 0);
}
