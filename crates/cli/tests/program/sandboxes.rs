//! `ps`, `inspect`, `stats`, `touch`, `stop`, `rm`, `prune`.

use std::fs;

use serde_json::json;

use crate::shell::Person;
use crate::support::{World, is_alive};

#[test]
fn a_sandbox_in_json_has_the_promised_shape() {
    let world = World::new();
    world.run("true").exits(0);
    insta::assert_json_snapshot!(world.vestal(["ps", "--json"]).exits(0).json(), {
        "[].id" => "[id]",
        "[].created_at" => "[time]",
        "[].last_used_at" => "[time]",
        "[].expires_at" => "[time]",
        "[].idle_seconds" => "[seconds]",
    });
}

#[test]
fn everything_about_a_sandbox_has_the_promised_shape() {
    let world = World::new();
    let id = world.background("sleep 1000");
    let inspected = world.vestal(["inspect", "default", "--json"]).exits(0).json();
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
    let text = world.vestal(["inspect"]).exits(0).text();
    assert!(text.contains("sleep 1000") && text.contains("local"), "{text}");
}

#[test]
fn stats_count_what_runs() {
    let world = World::new();
    let id = world.background("sleep 1000 & sleep 1000 & echo ready; wait");
    assert_eq!(world.start(["logs", "-f", &id]).line(), "ready");
    let stats = world.vestal(["stats", "--json"]).exits(0).json();
    assert_eq!(stats[0]["task"], "default");
    assert!(stats[0]["processes"].as_u64().unwrap() >= 3, "{stats}");
    assert!(stats[0]["memory_bytes"].as_u64().unwrap() > 0, "{stats}");
    assert!(world.vestal(["stats"]).exits(0).text().starts_with("TASK"));
    world.vestal(["stats", "nope"]).exits(125);
}

#[test]
fn a_stopped_sandbox_keeps_its_sessions_and_starts_on_the_next_use() {
    let world = World::new();
    let id = world.background("echo $$; sleep 1000");
    let pid = world.start(["logs", "-f", &id]).line();
    world.run("export A=kept").exits(0);
    assert_eq!(world.vestal(["stop"]).exits(0).text(), "stopped default\n");
    assert!(!is_alive(&pid));
    assert_eq!(world.vestal(["ps", "--json"]).json()[0]["state"], "stopped");
    assert_eq!(world.vestal(["stop", "--json"]).exits(0).json()[0]["was_running"], false);
    let again = world.vestal(["run", "--json", "echo $A"]).exits(0).json();
    assert_eq!(
        (&again["stdout"], &again["sandbox"]["state_before"]),
        (&"kept\n".into(), &"stopped".into())
    );
    assert_eq!(again["sandbox"]["attached"], true);
}

#[test]
fn a_person_who_names_no_task_is_told_which_sandbox_stops_and_asked() {
    let world = World::new();
    world.run("true").exits(0);
    let state = || world.vestal(["ps", "--json"]).exits(0).json()[0]["state"].clone();
    let mut person = Person::start(&world, &["stop"]);
    person.sees("no task was named: the sandbox of default will be stopped");
    person.sees("Stop? [y/N] ");
    person.types("n\r");
    person.sees("nothing was stopped");
    assert_eq!((person.leaves().0, state()), (1, json!("running")));
    let mut person = Person::start(&world, &["stop"]);
    person.sees("Stop? [y/N] ");
    person.types("y\r");
    person.sees("stopped default");
    assert_eq!((person.leaves().0, state()), (0, json!("stopped")));
    // Who names it, or has said yes, is not asked.
    for args in [&["stop", "default"][..], &["stop", "-y"]] {
        world.run("true").exits(0);
        let mut person = Person::start(&world, args);
        person.sees("stopped default");
        let (code, rest) = person.leaves();
        assert!(code == 0 && !rest.contains("Stop?"), "{args:?}: {rest}");
    }
}

#[test]
fn touching_counts_as_use_and_listing_does_not() {
    let world = World::new();
    world.run("true").exits(0);
    let used =
        |world: &World| world.vestal(["ps", "--json"]).exits(0).json()[0]["last_used_at"].clone();
    let before = used(&world);
    assert_eq!(before, used(&world));
    world.vestal(["touch"]).exits(0);
    assert_ne!(before, used(&world));
    world.vestal(["stop"]).exits(0);
    let stopped = world.vestal(["touch"]).exits(125);
    assert!(stopped.stderr.contains("to start it"), "{stopped:?}");
}

#[test]
fn an_unknown_task_is_answered_with_the_one_that_was_meant() {
    let world = World::new();
    world.vestal(["run", "-t", "web", "true"]).exits(0);
    for verb in [
        &["inspect", "wbe"][..],
        &["stop", "wbe"],
        &["rm", "-y", "wbe"],
        &["jobs", "-t", "wbe"],
        &["touch", "wbe"],
        &["cp", "wbe:x", "y"],
        &["logs", "-t", "wbe", "j-x"],
    ] {
        let outcome = world.vestal(verb).exits(125);
        assert!(outcome.stderr.contains("did you mean web?"), "{verb:?}: {outcome:?}");
    }
    assert_eq!(world.tasks(), ["web"]);
}

#[test]
fn removal_without_a_terminal_needs_a_yes() {
    let world = World::new();
    world.run("true").exits(0);
    let refused = world.vestal(["rm", "default"]).exits(2);
    assert!(refused.stderr.contains("-y"), "{refused:?}");
    assert!(refused.stderr.contains("the running sandbox on local"), "{refused:?}");
    assert_eq!(world.tasks(), ["default"]);
    world.vestal(["rm"]).exits(2);
    let removed = world.vestal(["rm", "-y", "default"]).exits(0);
    assert_eq!(removed.text(), "removed default (1 instance)\n");
    assert_eq!(world.tasks(), [""; 0]);
}

#[test]
fn a_mistyped_name_among_several_is_told_and_the_others_go() {
    let world = World::new();
    for task in ["one", "two", "three"] {
        world.vestal(["run", "-t", task, "true"]).exits(0);
    }
    let removed = world.vestal(["rm", "-y", "--json", "nope", "three"]).exits(125).json();
    assert_eq!((&removed[0]["task"], &removed[1]["task"]), (&json!("three"), &json!("nope")));
    assert_eq!(removed.as_array().unwrap().len(), 2, "{removed}");
    let stopped = world.vestal(["stop", "one", "nope", "two"]).exits(125);
    assert_eq!(stopped.text(), "stopped one\nstopped two\n");
    assert!(stopped.stderr.contains("\"nope\""), "{stopped:?}");
    let stopped = world.vestal(["stop", "--json", "one", "nope"]).exits(125).json();
    assert_eq!(stopped[0], json!({"task": "one", "was_running": false, "files_lost": false}));
    assert_eq!((stopped[1]["task"].as_str(), stopped.as_array().unwrap().len()), (Some("nope"), 2));
    assert!(stopped[1]["error"].is_string() && stopped[1]["advice"].is_array(), "{stopped}");
    let removed = world.vestal(["rm", "-y", "one", "nope", "never", "two"]).exits(125);
    assert_eq!(removed.text(), "removed one (1 instance)\nremoved two (1 instance)\n");
    for name in ["\"nope\"", "\"never\""] {
        assert!(removed.stderr.contains(name), "{removed:?}");
    }
    assert_eq!(world.tasks(), [""; 0]);
}

/// A limit of the size of files is to a process what a full disk is.
#[test]
fn a_sandbox_is_stopped_and_removed_without_room_to_write() {
    let world = World::new();
    world.run("true").exits(0);
    for verb in [&["stop"][..], &["rm", "-y", "--files", "default"]] {
        let vestal = world.command(verb);
        let mut full = std::process::Command::new("sh");
        full.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
        full.arg(vestal.get_program()).args(vestal.get_args()).current_dir(world.work());
        full.env_clear().envs(vestal.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = full.output().unwrap();
        assert!(output.status.success(), "{verb:?}: {output:?}");
    }
    assert_eq!(world.tasks(), [""; 0]);
    assert!(!world.home().join("sandboxes/default").exists());
}

#[test]
fn what_processes_that_died_left_is_told_and_swept() {
    let world = World::new();
    world.run("true").exits(0);
    let sandboxes = world.home().join("sandboxes");
    let then = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    for name in [".trial-0", "never/state"] {
        std::fs::create_dir_all(sandboxes.join(name)).unwrap();
    }
    std::fs::File::open(sandboxes.join(".trial-0")).unwrap().set_modified(then).unwrap();
    std::fs::write(sandboxes.join("default/intent.0.tmp"), "").unwrap();
    let told = |args: &[&str]| {
        let json = world.vestal(args).exits(0).json();
        let tasks = json.as_array().unwrap().iter().map(|left| left["task"].as_str().unwrap());
        tasks.map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = [".trial-0", "never", "default"];
    assert_eq!(told(&["prune", "--dry-run", "--json"]), expected);
    assert_eq!(told(&["prune", "--json"]), expected);
    assert_eq!(told(&["prune", "--dry-run", "--json"]), [""; 0]);
    let mut left: Vec<_> = std::fs::read_dir(&sandboxes).unwrap().flatten().collect();
    assert_eq!(left.pop().unwrap().file_name(), "default");
    assert!(left.is_empty() && !sandboxes.join("default/intent.0.tmp").exists());
    assert_eq!(world.run("echo still there").exits(0).text(), "still there\n");
}

#[test]
fn pruning_says_what_it_would_do_and_leaves_what_runs() {
    let world = World::new();
    world.run("true").exits(0);
    let nothing = world.vestal(["prune", "--dry-run", "--json"]).exits(0);
    assert_eq!(nothing.json(), serde_json::json!([]));
    world.vestal(["config", "set", "terminal.retention_seconds", "1m"]).exits(0);
    world.run("true").exits(0);
    world.vestal(["stop"]).exits(0);
    // Time passes on the clock the reaper reads: that of the instance's files.
    age(&world.home().join("sandboxes"));
    let would = world.vestal(["prune", "--dry-run", "--json"]).exits(0).json();
    assert_eq!(would[0]["task"], "default");
    assert_eq!(would[0]["reason"], "expired");
    assert_eq!(would[0]["removed"], false);
    assert_eq!(world.tasks(), ["default"]);
    let text = world.vestal(["prune"]).exits(0);
    assert!(text.text().contains("unused for longer than the retention"), "{text:?}");
    assert_eq!(world.tasks(), [""; 0]);
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
    let world = World::new();
    world.run("true").exits(0);
    let drifted = world.vestal(["--set", "terminal.job_log_bytes=1M", "run", "echo out"]).exits(0);
    assert_eq!(drifted.text(), "out\n");
    assert!(drifted.stderr.contains("terminal.job_log_bytes"), "{drifted:?}");
    assert!(drifted.stderr.contains("vestal stop default"), "{drifted:?}");
    world.vestal(["config", "set", "terminal.job_log_bytes", "1M"]).exits(0);
    assert_eq!(world.vestal(["ps", "--json"]).json()[0]["drift"][0], "terminal.job_log_bytes");
    world.vestal(["stop"]).exits(0);
    let taken = world.run("true").exits(0);
    assert!(taken.stderr.contains("was started with changed settings"), "{taken:?}");
    assert_eq!(world.run("true").exits(0).stderr, "", "it is told once");
    assert_eq!(world.vestal(["ps", "--json"]).json()[0]["drift"], serde_json::json!([]));
}

#[test]
fn a_state_file_of_a_newer_vestal_is_left_alone() {
    let world = World::new();
    world.run("true").exits(0);
    world.vestal(["stop"]).exits(0);
    let record = world.home().join("sandboxes/default/sandbox.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    let known = json["version"].clone();
    json["version"] = 999.into();
    fs::write(&record, json.to_string()).unwrap();
    let outcome = world.run("true").exits(125);
    assert!(outcome.stderr.contains("newer"), "{outcome:?}");
    assert_eq!(fs::read_to_string(&record).unwrap(), json.to_string());
    json["version"] = known;
    fs::write(&record, json.to_string()).unwrap();
    world.run("true").exits(0);
}

#[test]
fn profiles_have_homes_of_their_own() {
    let world = World::new();
    fs::create_dir_all(world.home().join("profiles/work")).unwrap();
    world.run("export A=default").exits(0);
    world.vestal(["-p", "work", "run", "export A=work"]).exits(0);
    assert_eq!(world.run("echo $A").text(), "default\n");
    assert_eq!(world.vestal(["run", "-p", "work", "echo $A"]).text(), "work\n");
    let listed = |args: &[&str]| world.vestal(args).exits(0).json().as_array().unwrap().len();
    assert_eq!(listed(&["ps", "--json"]), 1);
    assert_eq!(listed(&["ps", "--all", "--json"]), 2);
    let unknown = world.vestal(["-p", "nope", "ps"]).exits(1);
    assert!(unknown.stderr.contains("default, work"), "{unknown:?}");
    world.vestal(["-p", "work", "rm", "-y", "default"]).exits(0);
}
