//! What the program looks like: help, completions, colour, complaints.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::{ProgramFixture, finish};

#[test]
fn without_a_command_the_help_is_shown() {
    let fixture = ProgramFixture::new();
    let help = fixture.vestal([""; 0]).exits(0);
    assert_eq!(help.stderr, "");
    assert_eq!(help.text(), fixture.vestal(["--help"]).exits(0).text());
    insta::assert_snapshot!(help.text());
}

#[test]
fn the_help_of_run_explains_it() {
    let fixture = ProgramFixture::new();
    insta::assert_snapshot!(fixture.vestal(["run", "--help"]).exits(0).text());
}

#[test]
fn the_version_is_reported() {
    let fixture = ProgramFixture::new();
    let version = fixture.vestal(["--version"]).exits(0).text();
    assert_eq!(version, format!("vestal {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_ends_with_2_and_a_hint() {
    let fixture = ProgramFixture::new();
    let outcome = fixture.vestal(["runs", "true"]).exits(2);
    assert!(outcome.stderr.contains("'run'"), "{outcome:?}");
    assert!(!outcome.stderr.contains('\x1b'), "{outcome:?}");
    fixture.vestal(["run"]).exits(2);
    fixture.vestal(["run", "--timeout", "soon", "true"]).exits(2);
}

#[test]
fn completions_are_made_for_three_shells() {
    let fixture = ProgramFixture::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = fixture.vestal(["completions", shell]).exits(0).text();
        assert!(script.contains("vestal") && script.contains("completions"), "{shell}");
    }
    let script = fixture.vestal(["completions", "bash"]).exits(0).text();
    let file = fixture.work().join("completions");
    fs::write(&file, script).unwrap();
    let checked = Command::new("bash").arg("-n").arg(&file).status().unwrap();
    assert!(checked.success());
    fixture.vestal(["completions", "cmd"]).exits(2);
    // What bash makes of it: names are those that there are now.
    let made = fixture.vestal(["kanban", "create", "x", "--json"]).exits(0).json();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_vestal")).parent().unwrap();
    let completed = |words: &[&str]| {
        let text = format!(
            ". {}; PATH={}:$PATH; COMP_WORDS=(vestal {}); COMP_CWORD={}; _vestal vestal '{}' '{}'; echo \"${{COMPREPLY[*]}}\"",
            file.display(),
            program.display(),
            words.join(" "),
            words.len(),
            words.last().unwrap(),
            words[words.len() - 2],
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", &text]).envs(fixture.environment());
        String::from_utf8(bash.output().unwrap().stdout).unwrap().trim().to_owned()
    };
    assert_eq!(completed(&["kanban", "show", "t_"]), made["id"].as_str().unwrap());
    assert_eq!(completed(&["kanban", "list", "--status", "sch"]), "scheduled");
    assert_eq!(completed(&["kanban", "list", "--assignee", "def"]), "default");
    assert_eq!(completed(&["kanban", "--board", "def"]), "default");
}

#[test]
fn the_doctor_says_what_works_and_ends_with_1_if_something_is_broken() {
    let fixture = ProgramFixture::new();
    let well = fixture.vestal(["doctor"]).exits(0).text();
    for part in [
        "backend local: works",
        "guest: built in",
        "settings: no mistakes",
        "home:",
        "leftovers: none",
        "model: no model is configured",
    ] {
        assert!(well.contains(part), "{part}: {well}");
    }
    let mut asked = fixture.command(["doctor"]);
    asked.envs([("VESTAL_MODEL", "m"), ("VESTAL_BASE_URL", "http://127.0.0.1:1/v1")]);
    let reported = finish(asked.spawn().unwrap()).exits(0).text();
    assert!(reported.contains("model: the agent uses custom:m"), "{reported}");
    let json = fixture.vestal(["doctor", "--json"]).exits(0).json();
    assert_eq!(json["ok"], true);
    fs::write(fixture.home().join("config.yaml"), "terminal:\n  timeout: soon\n").unwrap();
    let ill = fixture.vestal(["doctor"]).exits(1).text();
    assert!(ill.contains("broken  settings: terminal.timeout is \"soon\""), "{ill}");
}

#[test]
fn who_asks_for_json_gets_the_error_in_json_too() {
    let fixture = ProgramFixture::new();
    for words in [&["inspect", "nope"][..], &["stats", "nope"], &["jobs", "-t", "nope"]] {
        let outcome = fixture.vestal([words, &["--json"]].concat()).exits(125);
        let json = outcome.json();
        assert_eq!(json["error"], "there is no sandbox for task \"nope\"", "{outcome:?}");
        assert_eq!(json["advice"][0], "`vestal ps` lists the sandboxes");
        assert!(outcome.stderr.contains("no sandbox for task"), "{outcome:?}");
    }
}

#[test]
fn a_backend_that_cannot_be_asked_is_reported_and_ends_with_1() {
    let fixture = ProgramFixture::new();
    fixture.vestal(["run", "-t", "web", "true"]).exits(0);
    fixture.vestal(["stop", "web"]).exits(0);
    let dir = fixture.home().join("sandboxes/web");
    let made: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.join("sandbox.json")).unwrap()).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir_all(dir.join("instances/0123456789abcdef")).unwrap();
    let locator = serde_json::json!({
        "container": "c", "name": "c", "image": "i", "image_id": "i", "transport": { "by": "exec" },
    });
    let record = serde_json::json!({
        "version": 1, "key": made["key"], "profile": "default", "task": "web", "backend": "docker",
        "created_at": "2026-01-01T00:00:00Z", "generation": 1, "instance": {
            "id": "0123456789abcdef", "created_at": "2026-01-01T00:00:00Z", "spec": {},
            "retention_seconds": null, "locator": locator,
        },
    });
    fs::write(dir.join("sandbox.json"), record.to_string()).unwrap();
    let nowhere = format!("unix://{}", fixture.work().join("nobody.sock").display());
    let ask = |words: &[&str]| {
        finish(fixture.command(words).env("DOCKER_HOST", &nowhere).spawn().unwrap()).exits(1)
    };
    for words in [&["ps"][..], &["jobs"], &["stats"], &["jobs", "-t", "web"], &["prune", "-n"]] {
        let outcome = ask(words);
        assert!(outcome.stderr.contains("nobody.sock"), "{words:?}: {outcome:?}");
        assert!(!outcome.stderr.contains("no jobs are running;"), "{words:?}: {outcome:?}");
    }
    assert_eq!(ask(&["ps", "--json"]).json()[0]["state"], "unknown");
    let doctor = ask(&["doctor"]).text();
    assert!(doctor.contains("broken  sandbox web: not answered"), "{doctor}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_home_that_cannot_be_used_is_reported_with_what_to_do() {
    let fixture = ProgramFixture::new();
    let file = fixture.work().join("file");
    fs::write(&file, "").unwrap();
    for verb in [&["run", "true"][..], &["ps"], &["jobs"]] {
        let mut command = fixture.command(verb);
        let outcome =
            finish(command.env("VESTAL_HOME", file.join("home")).spawn().unwrap()).exits(125);
        assert!(outcome.stderr.contains("VESTAL_HOME"), "{outcome:?}");
    }
    let mut command = fixture.command(["doctor"]);
    let outcome = finish(command.env("VESTAL_HOME", file.join("home")).spawn().unwrap()).exits(1);
    assert!(outcome.text().contains("broken  home"), "{outcome:?}");
    let mut command = fixture.command(["ps"]);
    let relative = finish(command.env("VESTAL_HOME", "relative").spawn().unwrap()).exits(125);
    assert!(relative.stderr.contains("not an absolute path"), "{relative:?}");
}

#[test]
fn nothing_is_coloured_that_no_terminal_shows() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    for verb in [
        &["ps"][..],
        &["inspect"],
        &["doctor"],
        &["config", "show"],
        &["--help"],
        &["logs", "j-nope"],
    ] {
        let outcome = fixture.vestal(verb);
        assert!(!outcome.text().contains('\x1b'), "{outcome:?}");
        assert!(!outcome.stderr.contains('\x1b'), "{outcome:?}");
    }
}

#[test]
fn a_listing_nobody_reads_ends_quietly() {
    let fixture = ProgramFixture::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = fixture.command(["config", "docs"]);
    let outcome = finish(command.stdout(Stdio::from(writer)).spawn().unwrap()).exits(141);
    assert_eq!(outcome.stderr, "");
}

#[test]
fn what_a_sandbox_calls_things_cannot_command_the_terminal() {
    let fixture = ProgramFixture::new();
    let id = fixture.background("printf '\x1b]0;title\x07' > /dev/null");
    fixture.vestal(["wait", &id]).exits(0);
    let listed = fixture.vestal(["jobs", "--all"]).exits(0).text();
    assert!(listed.contains("\\x1b]0;title\\x07"), "{listed}");
}
