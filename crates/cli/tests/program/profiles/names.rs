//! Names of profiles; and how profiles are exported and imported.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::create;
use crate::support::ProgramFixture;

#[test]
fn a_profile_is_made_listed_and_shown() {
    let fixture = ProgramFixture::new();
    let made = fixture.vestal(["profile", "create", "Work", "--description", "for pay"]).exits(0);
    let dir = fixture.home().join("profiles/work");
    assert_eq!(made.text(), format!("created profile work in {}\n", dir.display()));
    assert!(made.stderr.contains("vestal profile use work"), "{made:?}");
    let mode = |path: &str| fs::metadata(dir.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode(".env")), (0o700, 0o600));
    fs::write(dir.join("config.yaml"), "model: some/model\n").unwrap();
    let view = |name: &str, path, active, description, model| {
        json!({"name": name, "path": path, "active": active, "current": active,
            "description": description, "model": model, "problem": null})
    };
    let listed = fixture.vestal(["profile", "list", "--json"]).exits(0).json();
    let default = view("default", fixture.home(), true, "", None);
    assert_eq!(
        listed,
        json!([default, view("work", dir.clone(), false, "for pay", Some("some/model"))])
    );
    let table = fixture.vestal(["profile", "list"]).exits(0).text();
    let line = table.lines().find(|line| line.contains("work")).unwrap();
    assert!(line.contains("some/model") && line.contains("for pay"), "{table}");
    let shown = fixture.vestal(["-p", "work", "profile", "show", "--json"]).exits(0).json();
    assert_eq!(
        shown,
        json!({"name": "work", "path": dir, "active": false, "current": true,
            "description": "for pay", "model": "some/model", "problem": null, "provider": null,
            "sandboxes": 0, "conversations": false, "skills": 0, "memories": 0, "soul": false})
    );
    let text = fixture.vestal(["profile", "show", "WORK"]).exits(0).text();
    assert!(text.contains("some/model") && text.contains("for pay"), "{text}");
}

#[test]
fn a_mistyped_profile_is_answered_with_the_one_that_was_meant() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    for args in [
        &["-p", "wrok", "ps"][..],
        &["profile", "use", "wrok"],
        &["profile", "show", "wrok"],
        &["profile", "delete", "-y", "wrok"],
    ] {
        let outcome = fixture.vestal(args).exits(1);
        assert!(outcome.stderr.contains("did you mean work?"), "{args:?}: {outcome:?}");
    }
}

#[test]
fn a_wrong_taken_or_unknown_name_is_one_line_and_exit_code_1() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    for (args, printed) in [
        (&["profile", "create", "../x"][..], "is not a valid name for a profile"),
        (&["profile", "create", "sudo"], "no profile can be called sudo"),
        (&["profile", "create", "default"], "no profile can be called default"),
        (&["profile", "create", "WORK"], "there is a profile work already"),
        (&["profile", "create", "a", "--clone-from", "no"], "there is no profile no"),
        (&["profile", "show", "no"], "existing profiles: default, work"),
        (&["profile", "use", "no"], "there is no profile no"),
        (&["profile", "rename", "default", "x"], "cannot be renamed"),
        (&["profile", "rename", "work", "tmp"], "no profile can be called tmp"),
        (&["profile", "delete", "-y", "default"], "cannot be deleted"),
        (&["profile", "delete", "-y", "no"], "there is no profile no"),
        (&["profile", "export", "no"], "there is no profile no"),
        (&["-p", "no", "profile", "list"], "to make it: vestal profile create no"),
        (&["ps", "-p", "no"], "to make it: vestal profile create no"),
        (&["-p", "no", "run", "true"], "to make it: vestal profile create no"),
        (&["run", "-p", "a b", "true"], "is not a valid name for a profile"),
    ] {
        let outcome = fixture.vestal(args).exits(1);
        assert!(outcome.stderr.contains(printed), "{args:?}: {outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{args:?}: {outcome:?}");
        assert_eq!(outcome.text(), "", "{args:?}");
    }
    assert!(!fixture.home().join("profiles/no").exists(), "nothing is made unasked");
    fixture.vestal(["profile", "create"]).exits(2);
    fixture.vestal(["profile", "create", "a", "--clone", "--clone-from", "work"]).exits(2);
}

#[test]
fn a_clone_begins_with_what_the_profile_in_use_has() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    let dir = fixture.home().join("profiles/work");
    fs::write(dir.join("config.yaml"), "terminal: {jobs_kept: 7}\n").unwrap();
    fs::write(dir.join("SOUL.md"), "persona").unwrap();
    fixture.vestal(["profile", "use", "work"]).exits(0);
    fixture.vestal(["profile", "create", "spare", "--clone"]).exits(0);
    let kept = fixture.vestal(["-p", "spare", "config", "get", "terminal.jobs_kept"]).exits(0);
    assert_eq!(kept.text(), "7\n");
    let json = fixture.vestal(["profile", "create", "third", "--clone-from", "spare", "--json"]);
    let json = json.exits(0).json();
    assert_eq!(json["name"], "third");
    assert_eq!(json["left_out"], json!([]));
    assert!(fixture.home().join("profiles/third/SOUL.md").exists());
    fixture.vestal(["profile", "use", "default"]).exits(0);
}

#[test]
fn an_odd_directory_among_the_profiles_is_reported_and_breaks_nothing() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    fs::create_dir(fixture.home().join("profiles/Zed")).unwrap();
    fs::write(fixture.home().join("profiles/work/profile.json"), b"\xff").unwrap();
    create(&fixture, "later");
    let listed = fixture.vestal(["profile", "list"]).exits(0);
    assert!(listed.text().contains("later"), "{listed:?}");
    assert!(listed.stderr.contains("Zed is not a profile"), "{listed:?}");
    assert!(listed.stderr.contains("profile work: "), "{listed:?}");
    fixture.vestal(["-p", "work", "ps"]).exits(0);
}

#[test]
fn an_exported_profile_comes_back_without_its_secrets() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    let dir = fixture.home().join("profiles/work");
    let text = "# was hunter2\nmodel: {default: m, api_key: hunter2}\napprovals: {mode: off}\n";
    fs::write(dir.join("config.yaml"), text).unwrap();
    fs::write(dir.join(".env"), "OPENAI_API_KEY=hunter2\n").unwrap();
    fs::create_dir_all(dir.join("skills/deploy")).unwrap();
    fs::write(dir.join("skills/deploy/SKILL.md"), "how").unwrap();
    fs::write(dir.join("skills/deploy/.env"), "hunter2").unwrap();
    let exported = fixture.vestal(["profile", "export", "work", "--json"]).exits(0).json();
    assert_eq!(
        exported,
        json!({"name": "work", "path": "work.tar.gz", "files": 3,
            "left_out": [dir.join("skills/deploy/.env")], "settings_left_out": ["model.api_key"]})
    );
    let again = fixture.vestal(["profile", "export", "work"]).exits(1);
    assert!(again.stderr.contains("work.tar.gz exists"), "{again:?}");
    let taken = fixture.vestal(["profile", "import", "work.tar.gz"]).exits(1);
    assert!(taken.stderr.contains("there is a profile work already"), "{taken:?}");
    let imported =
        fixture.vestal(["profile", "import", "work.tar.gz", "--name", "copy", "--json"]).exits(0);
    let copy = fixture.home().join("profiles/copy");
    assert_eq!(
        imported.json(),
        json!({"name": "copy", "path": copy, "files": 3, "left_out": [],
            "telling_settings": ["approvals.mode"]})
    );
    let shown = fixture.vestal(["profile", "show", "copy", "--json"]).exits(0).json();
    assert_eq!((&shown["model"], &shown["skills"]), (&json!("m"), &json!(1)));
    for file in [".env", "config.yaml", "profile.json", "skills/deploy/SKILL.md"] {
        let text = fs::read_to_string(copy.join(file)).unwrap();
        assert!(!text.contains("hunter2"), "{file}: {text}");
    }
    fixture.vestal(["-p", "copy", "config", "check"]).exits(0);
}

#[test]
fn an_archive_that_is_none_is_refused_in_one_line() {
    let fixture = ProgramFixture::new();
    fs::write(fixture.work().join("text.tar.gz"), "text").unwrap();
    let refused = fixture.vestal(["profile", "import", "text.tar.gz", "--name", "a"]).exits(1);
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    assert!(refused.stderr.contains("is not imported"), "{refused:?}");
    assert!(!fixture.home().join("profiles/a").exists());
    fixture.vestal(["profile", "import", "absent.tar.gz"]).exits(125);
}
