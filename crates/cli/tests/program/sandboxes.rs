//! `ps`, `inspect`, `stats`, `touch`, `stop`, `rm`, `prune`.

use std::fs;

use serde_json::json;

use crate::shell::ShellTerminal;
use crate::support::{ProgramFixture, is_alive};

#[test]
fn a_sandbox_in_json_has_the_promised_shape() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    insta::assert_json_snapshot!(fixture.vestal(["ps", "--json"]).exits(0).json(), {
        "[].id" => "[id]",
        "[].created_at" => "[time]",
        "[].last_used_at" => "[time]",
        "[].expires_at" => "[time]",
        "[].idle_seconds" => "[seconds]",
    });
}

#[test]
fn everything_about_a_sandbox_has_the_promised_shape() {
    let fixture = ProgramFixture::new();
    let id = fixture.background("sleep 1000");
    let inspected = fixture.vestal(["inspect", "default", "--json"]).exits(0).json();
    assert_eq!(inspected[0]["jobs"][0]["id"], id.as_str());
    assert_eq!(inspected[0]["jobs_running"], 1);
    insta::assert_json_snapshot!(inspected, {
        "[].id" => "[id]",
        "[].created_at" => "[time]",
        "[].last_used_at" => "[time]",
        "[].expires_at" => "[time]",
        "[].idle_seconds" => "[seconds]",
        "[].dir" => "[dir]",
        "[].locator" => "[locator]",
        "[].guest.incarnation" => "[random]",
        "[].guest.boot" => "[boot]",
        "[].guest.up_seconds" => "[seconds]",
        "[].stats.memory_bytes" => "[bytes]",
        "[].stats.guest_memory_bytes" => "[bytes]",
        "[].stats.processes" => "[count]",
        "[].stats.cpu_ms" => "[ms]",
        "[].stats.log_bytes" => "[bytes]",
        "[].jobs[]" => "[job]",
    });
    let text = fixture.vestal(["inspect"]).exits(0).text();
    assert!(text.contains("sleep 1000") && text.contains("local"), "{text}");
}

#[test]
fn stats_count_what_runs() {
    let fixture = ProgramFixture::new();
    let id = fixture.background("sleep 1000 & sleep 1000 & echo ready; wait");
    assert_eq!(fixture.start(["logs", "-f", &id]).line(), "ready");
    let stats = fixture.vestal(["stats", "--json"]).exits(0).json();
    assert_eq!(stats[0]["task"], "default");
    assert!(stats[0]["processes"].as_u64().unwrap() >= 3, "{stats}");
    assert!(stats[0]["memory_bytes"].as_u64().unwrap() > 0, "{stats}");
    assert!(fixture.vestal(["stats"]).exits(0).text().starts_with("TASK"));
    fixture.vestal(["stats", "nope"]).exits(125);
}

#[test]
fn a_stopped_sandbox_keeps_its_sessions_and_starts_on_the_next_use() {
    let fixture = ProgramFixture::new();
    let id = fixture.background("echo $$; sleep 1000");
    let pid = fixture.start(["logs", "-f", &id]).line();
    fixture.run("export A=kept").exits(0);
    assert_eq!(fixture.vestal(["stop"]).exits(0).text(), "stopped default\n");
    assert!(!is_alive(&pid));
    assert_eq!(fixture.vestal(["ps", "--json"]).json()[0]["state"], "stopped");
    assert_eq!(fixture.vestal(["stop", "--json"]).exits(0).json()[0]["was_running"], false);
    let again = fixture.vestal(["run", "--json", "echo $A"]).exits(0).json();
    assert_eq!(
        (&again["stdout"], &again["sandbox"]["state_before"]),
        (&"kept\n".into(), &"stopped".into())
    );
    assert_eq!(again["sandbox"]["attached"], true);
}

#[test]
fn a_person_who_names_no_task_is_shown_which_sandbox_stops_and_asked() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let state = || fixture.vestal(["ps", "--json"]).exits(0).json()[0]["state"].clone();
    let mut person = ShellTerminal::start(&fixture, &["stop"]);
    person.sees("no task was named: the sandbox of default will be stopped");
    person.sees("Stop? [y/N] ");
    person.types("n\r");
    person.sees("nothing was stopped");
    assert_eq!((person.leaves().0, state()), (1, json!("running")));
    let mut person = ShellTerminal::start(&fixture, &["stop"]);
    person.sees("Stop? [y/N] ");
    person.types("y\r");
    person.sees("stopped default");
    assert_eq!((person.leaves().0, state()), (0, json!("stopped")));
    // Who names it, or has said yes, is not asked.
    for args in [&["stop", "default"][..], &["stop", "-y"]] {
        fixture.run("true").exits(0);
        let mut person = ShellTerminal::start(&fixture, args);
        person.sees("stopped default");
        let (code, rest) = person.leaves();
        assert!(code == 0 && !rest.contains("Stop?"), "{args:?}: {rest}");
    }
}

#[test]
fn touching_counts_as_use_and_listing_does_not() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let used = |fixture: &ProgramFixture| {
        fixture.vestal(["ps", "--json"]).exits(0).json()[0]["last_used_at"].clone()
    };
    let before = used(&fixture);
    assert_eq!(before, used(&fixture));
    fixture.vestal(["touch"]).exits(0);
    assert_ne!(before, used(&fixture));
    fixture.vestal(["stop"]).exits(0);
    let stopped = fixture.vestal(["touch"]).exits(125);
    assert!(stopped.stderr.contains("to start it"), "{stopped:?}");
}

#[test]
fn an_unknown_task_is_answered_with_the_one_that_was_meant() {
    let fixture = ProgramFixture::new();
    fixture.vestal(["run", "-t", "web", "true"]).exits(0);
    for verb in [
        &["inspect", "wbe"][..],
        &["stop", "wbe"],
        &["rm", "-y", "wbe"],
        &["jobs", "-t", "wbe"],
        &["touch", "wbe"],
        &["cp", "wbe:x", "y"],
        &["logs", "-t", "wbe", "j-x"],
    ] {
        let outcome = fixture.vestal(verb).exits(125);
        assert!(outcome.stderr.contains("did you mean web?"), "{verb:?}: {outcome:?}");
    }
    assert_eq!(fixture.tasks(), ["web"]);
}

#[test]
fn removal_without_a_terminal_needs_a_yes() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let refused = fixture.vestal(["rm", "default"]).exits(2);
    assert!(refused.stderr.contains("-y"), "{refused:?}");
    assert!(refused.stderr.contains("the running sandbox on local"), "{refused:?}");
    assert_eq!(fixture.tasks(), ["default"]);
    fixture.vestal(["rm"]).exits(2);
    let removed = fixture.vestal(["rm", "-y", "default"]).exits(0);
    assert_eq!(removed.text(), "removed default (1 instance)\n");
    assert_eq!(fixture.tasks(), [""; 0]);
}

#[test]
fn a_mistyped_name_among_several_is_reported_and_the_others_go() {
    let fixture = ProgramFixture::new();
    for task in ["one", "two", "three"] {
        fixture.vestal(["run", "-t", task, "true"]).exits(0);
    }
    let removed = fixture.vestal(["rm", "-y", "--json", "nope", "three"]).exits(125).json();
    assert_eq!((&removed[0]["task"], &removed[1]["task"]), (&json!("three"), &json!("nope")));
    assert_eq!(removed.as_array().unwrap().len(), 2, "{removed}");
    let stopped = fixture.vestal(["stop", "one", "nope", "two"]).exits(125);
    assert_eq!(stopped.text(), "stopped one\nstopped two\n");
    assert!(stopped.stderr.contains("\"nope\""), "{stopped:?}");
    let stopped = fixture.vestal(["stop", "--json", "one", "nope"]).exits(125).json();
    assert_eq!(stopped[0], json!({"task": "one", "was_running": false, "files_lost": false}));
    assert_eq!((stopped[1]["task"].as_str(), stopped.as_array().unwrap().len()), (Some("nope"), 2));
    assert!(stopped[1]["error"].is_string() && stopped[1]["advice"].is_array(), "{stopped}");
    let removed = fixture.vestal(["rm", "-y", "one", "nope", "never", "two"]).exits(125);
    assert_eq!(removed.text(), "removed one (1 instance)\nremoved two (1 instance)\n");
    for name in ["\"nope\"", "\"never\""] {
        assert!(removed.stderr.contains(name), "{removed:?}");
    }
    assert_eq!(fixture.tasks(), [""; 0]);
}

/// A limit of the size of files is to a process what a full disk is.
#[test]
fn a_sandbox_is_stopped_and_removed_without_room_to_write() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    for verb in [&["stop"][..], &["rm", "-y", "--files", "default"]] {
        let vestal = fixture.command(verb);
        let mut full = std::process::Command::new("sh");
        full.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
        full.arg(vestal.get_program()).args(vestal.get_args()).current_dir(fixture.work());
        full.env_clear().envs(vestal.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = full.output().unwrap();
        assert!(output.status.success(), "{verb:?}: {output:?}");
    }
    assert_eq!(fixture.tasks(), [""; 0]);
    assert!(!fixture.home().join("sandboxes/default").exists());
}

#[test]
fn what_processes_that_died_left_is_reported_and_swept() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let sandboxes = fixture.home().join("sandboxes");
    let then = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    for name in [".trial-0", "never/state"] {
        std::fs::create_dir_all(sandboxes.join(name)).unwrap();
    }
    std::fs::File::open(sandboxes.join(".trial-0")).unwrap().set_modified(then).unwrap();
    std::fs::write(sandboxes.join("default/intent.0.tmp"), "").unwrap();
    let reported = |args: &[&str]| {
        let json = fixture.vestal(args).exits(0).json();
        let tasks = json.as_array().unwrap().iter().map(|left| left["task"].as_str().unwrap());
        tasks.map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = [".trial-0", "never", "default"];
    assert_eq!(reported(&["prune", "--dry-run", "--json"]), expected);
    assert_eq!(reported(&["prune", "--json"]), expected);
    assert_eq!(reported(&["prune", "--dry-run", "--json"]), [""; 0]);
    let mut left: Vec<_> = std::fs::read_dir(&sandboxes).unwrap().flatten().collect();
    assert_eq!(left.pop().unwrap().file_name(), "default");
    assert!(left.is_empty() && !sandboxes.join("default/intent.0.tmp").exists());
    assert_eq!(fixture.run("echo still there").exits(0).text(), "still there\n");
}

#[test]
fn pruning_says_what_it_would_do_and_leaves_what_runs() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let nothing = fixture.vestal(["prune", "--dry-run", "--json"]).exits(0);
    assert_eq!(nothing.json(), serde_json::json!([]));
    fixture.vestal(["config", "set", "terminal.retention_seconds", "1m"]).exits(0);
    fixture.run("true").exits(0);
    fixture.vestal(["stop"]).exits(0);
    // Time passes on the clock the reaper reads: that of the instance's files.
    age(&fixture.home().join("sandboxes"));
    let would = fixture.vestal(["prune", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(would[0]["task"], "default");
    assert_eq!(would[0]["reason"], "expired");
    assert_eq!(would[0]["removed"], false);
    assert_eq!(fixture.tasks(), ["default"]);
    let text = fixture.vestal(["prune"]).exits(0);
    assert!(text.text().contains("unused for longer than the retention"), "{text:?}");
    assert_eq!(fixture.tasks(), [""; 0]);
}

/// Makes every file below a directory an hour old.
fn age(dir: &std::path::Path) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            age(&entry.path());
        }
        let file = fs::File::open(entry.path()).unwrap();
        let then = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
        file.set_modified(then).unwrap();
    }
}

#[test]
fn changed_settings_are_named_with_the_command_that_applies_them() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let drifted =
        fixture.vestal(["--set", "terminal.job_log_bytes=1M", "run", "echo out"]).exits(0);
    assert_eq!(drifted.text(), "out\n");
    assert!(drifted.stderr.contains("terminal.job_log_bytes"), "{drifted:?}");
    assert!(drifted.stderr.contains("vestal stop default"), "{drifted:?}");
    fixture.vestal(["config", "set", "terminal.job_log_bytes", "1M"]).exits(0);
    assert_eq!(fixture.vestal(["ps", "--json"]).json()[0]["drift"][0], "terminal.job_log_bytes");
    fixture.vestal(["stop"]).exits(0);
    let taken = fixture.run("true").exits(0);
    assert!(taken.stderr.contains("was started with changed settings"), "{taken:?}");
    assert_eq!(fixture.run("true").exits(0).stderr, "", "it is reported once");
    assert_eq!(fixture.vestal(["ps", "--json"]).json()[0]["drift"], serde_json::json!([]));
}

#[test]
fn a_state_file_of_a_newer_vestal_is_left_alone() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    fixture.vestal(["stop"]).exits(0);
    let record = fixture.home().join("sandboxes/default/sandbox.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    let known = json["version"].clone();
    json["version"] = 999.into();
    fs::write(&record, json.to_string()).unwrap();
    let outcome = fixture.run("true").exits(125);
    assert!(outcome.stderr.contains("newer"), "{outcome:?}");
    assert_eq!(fs::read_to_string(&record).unwrap(), json.to_string());
    json["version"] = known;
    fs::write(&record, json.to_string()).unwrap();
    fixture.run("true").exits(0);
}

#[test]
fn profiles_have_homes_of_their_own() {
    let fixture = ProgramFixture::new();
    fs::create_dir_all(fixture.home().join("profiles/work")).unwrap();
    fixture.run("export A=default").exits(0);
    fixture.vestal(["-p", "work", "run", "export A=work"]).exits(0);
    assert_eq!(fixture.run("echo $A").text(), "default\n");
    assert_eq!(fixture.vestal(["run", "-p", "work", "echo $A"]).text(), "work\n");
    let listed = |args: &[&str]| fixture.vestal(args).exits(0).json().as_array().unwrap().len();
    assert_eq!(listed(&["ps", "--json"]), 1);
    assert_eq!(listed(&["ps", "--all", "--json"]), 2);
    let unknown = fixture.vestal(["-p", "nope", "ps"]).exits(1);
    assert!(unknown.stderr.contains("default, work"), "{unknown:?}");
    fixture.vestal(["-p", "work", "rm", "-y", "default"]).exits(0);
}

#[test]
fn looking_at_sandboxes_makes_no_home() {
    let fixture = ProgramFixture::new();
    if fixture.home().exists() {
        std::fs::remove_dir_all(fixture.home()).unwrap();
    }
    assert_eq!(fixture.vestal(["ps", "--json"]).exits(0).json(), serde_json::json!([]));
    assert!(!fixture.home().exists());
}

#[test]
fn a_home_that_has_lost_its_own_file_finds_its_sandboxes_again() {
    let fixture = ProgramFixture::new();
    fixture.run("kept=1; echo 2 > kept").exits(0);
    let file = fixture.home().join("home.json");
    std::fs::remove_file(&file).unwrap();
    let found = fixture.run("echo $kept; cat kept").exits(0);
    assert_eq!(found.text(), "1\n2\n");
    assert!(found.stderr.contains("home.json was missing"), "{found:?}");
    std::fs::write(&file, "{\"version\":1,").unwrap();
    let found = fixture.run("echo $kept").exits(0);
    assert_eq!(found.text(), "1\n");
    assert!(found.stderr.contains("home.json was damaged"), "{found:?}");
    assert_eq!(fixture.run("true").exits(0).stderr, "");
}

#[test]
fn a_sandbox_of_another_identity_is_not_shown_as_running() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    // As a version wrote it that recorded no home.
    let path = fixture.home().join("sandboxes/default/sandbox.json");
    let mut record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    record.as_object_mut().unwrap().remove("home").unwrap();
    let file = fixture.home().join("home.json");
    let (was, home) = (std::fs::read(&path).unwrap(), std::fs::read(&file).unwrap());
    std::fs::write(&path, record.to_string()).unwrap();
    std::fs::remove_file(&file).unwrap();
    let listed = fixture.vestal(["ps"]).exits(1);
    assert!(listed.text().contains("unknown") && !listed.text().contains("running"), "{listed:?}");
    assert!(listed.stderr.contains("another identity"), "{listed:?}");
    let refused = fixture.run("true").exits(125);
    assert!(refused.stderr.contains("home.json"), "{refused:?}");
    std::fs::write(&path, was).unwrap();
    std::fs::write(&file, home).unwrap();
    fixture.run("true").exits(0);
}
