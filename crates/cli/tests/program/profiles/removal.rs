//! Deleting and renaming profiles that have sandboxes.

use std::fs;

use serde_json::{Value, json};
use vestal_testkit::wait_for;

use super::{create, delete};
use crate::shell::ShellTerminal;
use crate::support::{ProgramFixture, finish, is_alive};

/// Starts a job in a profile's sandbox and returns its process.
#[track_caller]
fn job(fixture: &ProgramFixture, profile: &str) -> String {
    let pid = fixture.work().join("pid");
    let text = format!("echo $$ > {}; exec sleep 1000", pid.display());
    let id = fixture.vestal(["-p", profile, "run", "--background", &text]).exits(0);
    let id = id.text().trim().to_owned();
    wait_for(&format!("{id} has started"), || {
        let found = fs::read_to_string(&pid).unwrap_or_default();
        found.strip_suffix('\n').map(str::to_owned)
    })
}

#[test]
fn a_deleted_profile_takes_its_sandboxes_along_and_nothing_else() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    create(&fixture, "other");
    fixture.vestal(["profile", "use", "work"]).exits(0);
    let process = job(&fixture, "work");
    fixture.vestal(["-p", "work", "run", "-t", "a/b", "true"]).exits(0);
    fixture.vestal(["-p", "other", "run", "true"]).exits(0);
    let refused = fixture.vestal(["profile", "delete", "work"]).exits(2);
    assert!(refused.stderr.contains("use -y"), "{refused:?}");
    assert!(refused.stderr.contains("1 running job will be removed"), "{refused:?}");
    assert!(is_alive(&process));
    let deleted = fixture.vestal(["profile", "delete", "work", "-y", "--json"]).exits(0).json();
    assert_eq!(deleted, json!({"name": "work", "sandboxes": ["a/b", "default"]}));
    assert!(!is_alive(&process));
    let left: Vec<_> = fs::read_dir(fixture.home().join("profiles")).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(!fixture.home().join("active_profile").exists(), "the choice goes back");
    let others = fixture.vestal(["-p", "other", "ps", "--json"]).exits(0).json();
    assert_eq!(others[0]["state"], "running");
    delete(&fixture, &["other"]);
}

#[test]
fn on_a_terminal_the_name_must_be_typed() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    let mut person = ShellTerminal::start(&fixture, &["profile", "delete", "work"]);
    person.sees("type its name (work):");
    person.types("yes\r");
    let (code, rest) = person.leaves();
    assert_eq!(code, 1, "{rest}");
    assert!(fixture.home().join("profiles/work").exists());
    let mut person = ShellTerminal::start(&fixture, &["profile", "delete", "work"]);
    person.sees("type its name (work):");
    person.types("work\r");
    person.sees("deleted profile work");
    assert_eq!(person.leaves().0, 0);
    assert!(!fixture.home().join("profiles/work").exists());
}

#[test]
fn nothing_is_deleted_or_renamed_while_a_sandbox_is_out_of_reach() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    fixture.vestal(["-p", "work", "run", "true"]).exits(0);
    let record = fixture.home().join("profiles/work/sandboxes/default/sandbox.json");
    let local = fs::read_to_string(&record).unwrap();
    fixture.vestal(["-p", "work", "stop", "default"]).exits(0);
    // As if a container of an engine that does not run now.
    let mut json: Value = serde_json::from_str(&fs::read_to_string(&record).unwrap()).unwrap();
    json["backend"] = "docker".into();
    fs::write(&record, json.to_string()).unwrap();
    for args in
        [&["profile", "delete", "-y", "work"][..], &["profile", "rename", "-y", "work", "office"]]
    {
        let refused = fixture.vestal(args).exits(125);
        assert!(refused.stderr.contains("nothing was changed"), "{refused:?}");
        assert!(refused.stderr.contains("default on docker"), "{refused:?}");
        assert!(record.exists());
    }
    fs::write(&record, local).unwrap();
    delete(&fixture, &["work"]);
}

#[test]
fn sandboxes_that_a_setting_hides_keep_their_profile() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    // A sandbox in the profile's own directory, and a directory of the same name elsewhere.
    fixture.vestal(["-p", "work", "run", "true"]).exits(0);
    let shared = fixture.work().join("shared");
    fs::create_dir_all(shared.join("default/workspace")).unwrap();
    fs::write(shared.join("default/workspace/file"), "theirs").unwrap();
    for args in
        [&["profile", "delete", "-y", "work"][..], &["profile", "rename", "-y", "work", "office"]]
    {
        let mut command = fixture.command(args);
        command.env("TERMINAL_SANDBOX_DIR", &shared);
        let refused = finish(command.spawn().unwrap()).exits(125);
        assert!(refused.stderr.contains("there are sandboxes left in"), "{refused:?}");
        assert!(refused.stderr.contains("terminal.sandbox_dir hides them"), "{refused:?}");
        assert!(fixture.home().join("profiles/work").exists());
    }
    assert_eq!(fs::read_to_string(shared.join("default/workspace/file")).unwrap(), "theirs");
    delete(&fixture, &["work"]);
}

#[test]
fn a_renamed_profile_goes_on_with_its_files_in_new_instances() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    fixture.vestal(["profile", "use", "work"]).exits(0);
    fixture.vestal(["config", "set", "terminal.jobs_kept", "7"]).exits(0);
    let process = job(&fixture, "work");
    let id = fs::read_to_string(fixture.home().join("profiles/work/home.json")).unwrap();
    let workspace = fixture.home().join("profiles/work/sandboxes/default/workspace");
    fs::create_dir(&workspace).unwrap();
    fs::write(workspace.join("file"), "kept").unwrap();
    let refused = fixture.vestal(["profile", "rename", "work", "office"]).exits(2);
    assert!(refused.stderr.contains("1 running job will be removed"), "{refused:?}");
    assert!(is_alive(&process), "a refusal changes nothing");
    let renamed = fixture.vestal(["profile", "rename", "work", "office", "-y", "--json"]);
    let dir = fixture.home().join("profiles/office");
    assert_eq!(
        renamed.exits(0).json(),
        json!({"name": "office", "was": "work", "path": dir, "instances": 1})
    );
    assert!(!is_alive(&process));
    assert_eq!(fs::read_to_string(dir.join("sandboxes/default/workspace/file")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(dir.join("home.json")).unwrap(), id);
    // The choice has followed, and the sandbox is made anew under the new name.
    assert_eq!(fixture.vestal(["config", "get", "terminal.jobs_kept"]).exits(0).text(), "7\n");
    fixture.run("true").exits(0);
    let listed = fixture.vestal(["ps", "--json"]).exits(0).json();
    assert_eq!((&listed[0]["profile"], &listed[0]["state"]), (&json!("office"), &json!("running")));
    fixture.vestal(["-p", "work", "ps"]).exits(1);
    fixture.vestal(["profile", "rename", "office", "work"]).exits(2);
    delete(&fixture, &["office"]);
}

#[test]
fn a_profile_without_sandboxes_is_renamed_without_a_question() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    fixture.vestal(["-p", "work", "ps"]).exits(0);
    let renamed = fixture.vestal(["profile", "rename", "Work", "Office"]).exits(0).text();
    assert!(renamed.starts_with("profile work is now office, in "), "{renamed}");
}
