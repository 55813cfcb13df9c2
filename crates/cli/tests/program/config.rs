//! `vestal config`.

use std::fs;

use crate::support::{ProgramFixture, finish};

#[test]
fn a_value_is_set_shown_with_its_source_and_comments_stay() {
    let fixture = ProgramFixture::automatic();
    fs::create_dir_all(fixture.home()).unwrap();
    let file = fixture.home().join("config.yaml");
    fs::write(&file, "# mine\nterminal:\n  timeout: 90 # a while\n").unwrap();
    fixture.vestal(["config", "set", "terminal.jobs_kept", "7"]).exits(0);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("# mine") && text.contains("# a while"), "{text}");
    assert_eq!(fixture.vestal(["config", "get", "terminal.jobs_kept"]).exits(0).text(), "7\n");
    let shown = fixture.vestal(["config", "show", "--changed"]).exits(0).text();
    assert!(shown.contains("terminal.timeout") && shown.contains("config.yaml:3"), "{shown}");
    assert!(!shown.contains("terminal.backend"), "{shown}");
    let json = fixture.vestal(["config", "get", "--json", "terminal.timeout"]).exits(0).json();
    assert_eq!(json["source"]["kind"], "file");
}

#[test]
fn places_have_an_order() {
    let fixture = ProgramFixture::new();
    fixture.vestal(["config", "set", "terminal.jobs_kept", "1"]).exits(0);
    let get =
        |command: &mut std::process::Command| finish(command.spawn().unwrap()).exits(0).text();
    let key = "terminal.jobs_kept";
    assert_eq!(get(&mut fixture.command(["config", "get", key])), "1\n");
    fs::write(fixture.home().join(".env"), "TERMINAL_JOBS_KEPT=2\n").unwrap();
    assert_eq!(get(&mut fixture.command(["config", "get", key])), "2\n");
    let variable = ("TERMINAL_JOBS_KEPT", "3");
    assert_eq!(get(fixture.command(["config", "get", key]).env(variable.0, variable.1)), "3\n");
    let set = ["config", "get", key, "--set", "terminal.jobs_kept=4"];
    assert_eq!(get(fixture.command(set).env(variable.0, variable.1)), "4\n");
    let mut command = fixture.command(["config", "set", key, "5"]);
    let hidden = finish(command.env(variable.0, variable.1).spawn().unwrap()).exits(0);
    assert!(hidden.stderr.contains("TERMINAL_JOBS_KEPT"), "{hidden:?}");
}

#[test]
fn mistakes_are_found_and_break_nothing_that_does_not_use_them() {
    let fixture = ProgramFixture::new();
    assert_eq!(fixture.vestal(["config", "check"]).exits(0).text(), "no mistakes found\n");
    fs::create_dir_all(fixture.home()).unwrap();
    let text = "terminal:\n  timeout: soon\n  job_kept: 3\n";
    fs::write(fixture.home().join("config.yaml"), text).unwrap();
    let found = fixture.vestal(["config", "check"]).exits(1).text();
    assert!(found.contains("terminal.timeout is \"soon\""), "{found}");
    assert!(found.contains("did you mean terminal.jobs_kept?"), "{found}");
    let json = fixture.vestal(["config", "check", "--json"]).exits(1).json();
    assert_eq!(json[0]["severity"], "error");
    fixture.run("true").exits(0);
    let wrong = fixture.vestal(["config", "get", "terminal.timeout"]).exits(125);
    assert!(wrong.stderr.contains("config.yaml:2"), "{wrong:?}");
}

#[test]
fn a_wrong_setting_names_key_value_source_and_what_is_allowed() {
    let fixture = ProgramFixture::new();
    let wrong = fixture.vestal(["--set", "terminal.job_log_bytes=1K", "run", "true"]).exits(2);
    for part in ["terminal.job_log_bytes", "1K", "--set", "allowed"] {
        assert!(wrong.stderr.contains(part), "{part}: {wrong:?}");
    }
    let unknown = fixture.vestal(["--set", "terminal.jobs_keep=1", "ps"]).exits(2);
    assert!(unknown.stderr.contains("did you mean terminal.jobs_kept?"), "{unknown:?}");
    let wrong = fixture.vestal(["config", "set", "terminal.jobs_kept", "-1"]).exits(2).stderr;
    assert!(wrong.contains("terminal.jobs_kept is \"-1\" (as given), which"), "{wrong}");
    assert!(!wrong.contains("--set") && !wrong.contains("config show"), "{wrong}");
    fixture.vestal(["config", "get", "nope"]).exits(2);
    fixture.vestal(["run", "-b", "marble", "true"]).exits(2);
}

#[test]
fn a_secret_is_not_taken_from_the_command_line() {
    let fixture = ProgramFixture::new();
    let refused = fixture.vestal(["config", "set", "model.api_key", "sk-of-the-model"]).exits(2);
    assert!(refused.stderr.contains("config set model.api_key -"), "{refused:?}");
    assert!(!refused.stderr.contains("sk-of"), "{refused:?}");
    let file = fixture.home().join("config.yaml");
    assert!(!std::fs::read_to_string(&file).unwrap_or_default().contains("sk-of-the-model"));
    // By standard input it is, and a variable is no secret.
    let mut command = fixture.command(["config", "set", "model.api_key", "-"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"sk-of-the-model\n").unwrap();
    drop(input);
    crate::support::finish(child).exits(0);
    assert!(std::fs::read_to_string(&file).unwrap().contains("api_key: sk-of-the-model"));
    fixture.vestal(["config", "set", "model.api_key", "${SOME_KEY}"]).exits(0);
}

#[test]
fn paths_docs_and_schema_are_printed() {
    let fixture = ProgramFixture::new();
    let path = fixture.vestal(["config", "path"]).exits(0).text();
    assert_eq!(path.trim(), fixture.home().join("config.yaml").to_str().unwrap());
    assert!(fixture.vestal(["config", "docs"]).exits(0).text().contains("| `terminal.backend` |"));
    let schema = fixture.vestal(["config", "docs", "--schema"]).exits(0).json();
    assert!(schema["properties"]["terminal"]["properties"]["backend"].is_object());
}

#[test]
fn an_unknown_key_is_reported_once_and_one_that_protects_stops_the_command() {
    let fixture = ProgramFixture::automatic();
    fs::create_dir_all(fixture.home()).unwrap();
    let file = fixture.home().join("config.yaml");
    fs::write(&file, "terminal:\n  jobs_keep: 3\n").unwrap();
    let reported = fixture.vestal(["ps"]).exits(0).stderr;
    assert!(reported.contains("did you mean terminal.jobs_kept?"), "{reported}");
    assert_eq!(fixture.vestal(["ps"]).exits(0).stderr.matches("jobs_keep").count(), 0);
    fixture.vestal(["config", "check"]).exits(1);
    fs::write(&file, "terminal:\n  bakend: native\n").unwrap();
    let stopped = fixture.run("true").exits(125).stderr;
    assert!(stopped.contains("did you mean terminal.backend?"), "{stopped}");
    // What does not depend on it works.
    fixture.vestal(["ps"]).exits(0);
}
