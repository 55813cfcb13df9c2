//! `vestal skills`, and what commands and the agent make of skills.

mod tasks;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::json;
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};

use crate::chat::fixture::{ChatFixture, terminal};
use crate::support::{ProgramFixture, finish};

/// Makes the folder of a skill where the program is started.
pub(crate) fn skill(fixture: &ProgramFixture, name: &str, more: &str) -> PathBuf {
    let dir = fixture.work().join(name);
    fs::create_dir_all(dir.join("scripts")).unwrap();
    let text = format!("---\nname: {name}\ndescription: About {name}.\n{more}---\nDo it.\n");
    fs::write(dir.join("SKILL.md"), text).unwrap();
    let script = dir.join("scripts/go.sh");
    fs::write(&script, "#!/bin/sh\necho went with ${GO_TOKEN-nothing}\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

#[test]
fn a_skill_is_installed_shown_disabled_enabled_and_removed() {
    let fixture = ProgramFixture::new();
    let none = fixture.vestal(["skills"]).exits(0);
    assert!(none.stderr.contains("no skills in"), "{none:?}");
    skill(&fixture, "go", "version: 1.2\nrequired_environment_variables: [GO_TOKEN]\n");
    let installed = fixture.vestal(["skills", "install", "go", "-y"]).exits(0);
    assert!(installed.text().starts_with("installed go in "), "{installed:?}");
    assert!(installed.stderr.contains("GO_TOKEN is not set; put GO_TOKEN=…"), "{installed:?}");
    let listed = fixture.vestal(["skills", "list"]).exits(0).text();
    assert!(listed.contains("go") && listed.contains("lacks GO_TOKEN"), "{listed}");
    let shown = fixture.vestal(["skills", "show", "go"]).exits(0);
    assert!(shown.text().contains("scripts/go.sh  (script)"), "{shown:?}");
    assert!(shown.text().ends_with("Do it.\n"), "{shown:?}");
    fixture.vestal(["skills", "disable", "go"]).exits(0);
    assert!(fixture.vestal(["skills"]).exits(0).text().contains("disabled"));
    assert_eq!(fixture.vestal(["skills", "enable", "go"]).exits(0).text(), "enabled go\n");
    let again = fixture.vestal(["skills", "enable", "go"]).exits(0).text();
    assert_eq!(again, "was enabled already: go\n");
    let taken = fixture.vestal(["skills", "install", "go", "-y"]).exits(1);
    assert!(taken.stderr.contains("there is a skill go already"), "{taken:?}");
    assert!(taken.stderr.contains("--replace") && taken.stderr.contains("--name"), "{taken:?}");
    let replaced = fixture.vestal(["skills", "install", "go", "-y", "--replace"]).exits(0).text();
    assert!(replaced.starts_with("replaced go in "), "{replaced}");
    fixture.vestal(["skills", "remove", "go", "-y"]).exits(0);
    let gone = fixture.vestal(["skills", "show", "go"]).exits(1);
    assert!(gone.stderr.contains("there is no skill \"go\""), "{gone:?}");
}

#[test]
fn a_skill_of_a_repository_is_installed_and_updated_at_its_commits() {
    let fixture = ProgramFixture::new();
    let repository = skill(&fixture, "go", "");
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]).args(words);
        let output = command.env("HOME", fixture.work()).current_dir(&repository).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let commit = || {
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--message=x"]);
        git(&["rev-parse", "--short=12", "HEAD"])
    };
    git(&["init", "--quiet", "."]);
    let first = commit();
    let url = format!("file://{}", repository.display());
    let asked = fixture.vestal(["skills", "install", &url]).exits(2);
    assert!(asked.stderr.contains(&format!("commit {first}")), "{asked:?}");
    assert!(asked.stderr.contains("scripts that the agent may run: scripts/go.sh"), "{asked:?}");
    fixture.vestal(["skills", "install", &url, "-y"]).exits(0);
    let same = fixture.vestal(["skills", "update"]).exits(0).text();
    assert_eq!(same, "go is up to date\n");
    fs::write(repository.join("more.md"), "more").unwrap();
    let second = commit();
    let updated = fixture.vestal(["skills", "update", "-y"]).exits(0).text();
    assert!(updated.contains(&second), "{updated}");
    assert!(fixture.home().join("skills/go/more.md").is_file());
    let wrong = fixture.vestal(["skills", "install", "http://example.org/x.git", "-y"]).exits(2);
    assert!(wrong.stderr.contains("use https"), "{wrong:?}");
    let none = fixture.vestal(["skills", "catalogue"]).exits(1);
    assert!(none.stderr.contains("skills.catalogue_url"), "{none:?}");
}

#[test]
fn the_json_has_the_promised_shape() {
    let fixture = ProgramFixture::new();
    skill(
        &fixture,
        "go",
        "tags: [x]\nrequired_environment_variables: [{name: GO_TOKEN, help: h}]\n",
    );
    let path = fixture.home().join("skills/go");
    let variable = json!({"name": "GO_TOKEN", "state": "missing", "optional": false, "help": "h",
        "required_for": null});
    let installed = fixture.vestal(["skills", "install", "go", "-y", "--json"]).exits(0).json();
    let bytes = installed["bytes"].as_u64().unwrap();
    assert_eq!(
        installed,
        json!({"name": "go", "path": path, "files": 2, "bytes": bytes,
            "scripts": ["scripts/go.sh"], "variables": [variable], "left_out": [],
            "replaced": false})
    );
    fs::create_dir_all(fixture.home().join("skills/bad")).unwrap();
    fs::write(fixture.home().join("skills/bad/SKILL.md"), "---\nname: bad\n---\n").unwrap();
    let listed = fixture.vestal(["skills", "--json"]).exits(0).json();
    assert_eq!(
        listed["skills"],
        json!([{"name": "go", "description": "About go.", "category": null, "version": null,
            "license": null, "tags": ["x"], "enabled": true, "path": path,
            "variables": [variable], "missing": ["GO_TOKEN"]}])
    );
    let broken = &listed["broken"][0];
    assert_eq!((&broken["name"], &broken["line"]), (&json!("bad"), &json!(1)));
    assert_eq!(broken["reason"], "`description` is missing");
    let shown = fixture.vestal(["skills", "show", "go", "--json"]).exits(0).json();
    assert_eq!(shown["files"][1], json!({"path": "scripts/go.sh", "bytes": 45, "script": true}));
    assert!(shown["content"].as_str().unwrap().starts_with("---\nname: go\n"));
    let checked = fixture.vestal(["skills", "check", "--json"]).exits(1).json();
    assert_eq!((&checked["ok"], &checked["fine"]), (&json!(false), &json!(["go"])));
    assert_eq!(checked["missing"][0]["variable"], "GO_TOKEN");
}

#[test]
fn nothing_is_installed_or_removed_unasked() {
    let fixture = ProgramFixture::new();
    skill(&fixture, "go", "required_environment_variables: [GO_TOKEN]\n");
    let asked = fixture.vestal(["skills", "install", "go"]).exits(2);
    for reported in ["use -y", "go: About go.", "2 files", "scripts/go.sh", "GO_TOKEN"] {
        assert!(asked.stderr.contains(reported), "{reported}: {asked:?}");
    }
    assert!(!fixture.home().join("skills/go").exists());
    fixture.vestal(["skills", "install", "go", "-y"]).exits(0);
    fixture.vestal(["skills", "remove", "go"]).exits(2);
    assert!(fixture.home().join("skills/go/SKILL.md").exists());
}

#[test]
fn archives_are_installed_under_another_name_and_evil_ones_refused() {
    let fixture = ProgramFixture::new();
    skill(&fixture, "go", "");
    let tar = |args: &[&str]| {
        let made =
            std::process::Command::new("tar").current_dir(fixture.work()).args(args).status();
        assert!(made.unwrap().success());
    };
    tar(&["czf", "go.tar.gz", "go"]);
    tar(&["czf", "evil.tar.gz", "--transform", "s,go/scripts,go/../../evil,", "-P", "go"]);
    fixture.vestal(["skills", "install", "go.tar.gz", "--name", "went", "-y"]).exits(0);
    let shown = fixture.vestal(["skills", "show", "went", "--json"]).exits(0).json();
    assert_eq!(shown["name"], "went");
    let evil = fixture.vestal(["skills", "install", "evil.tar.gz", "-y"]).exits(1);
    assert!(evil.stderr.contains("leads out of it"), "{evil:?}");
    fs::write(fixture.work().join("go.zip"), b"PK\x03\x04").unwrap();
    let zip = fixture.vestal(["skills", "install", "go.zip", "-y"]).exits(1);
    assert!(zip.stderr.contains("go.zip cannot be installed: it is damaged"), "{zip:?}");
    fs::write(fixture.work().join("go/SKILL.md"), "---\nname: GO\n---\n").unwrap();
    let wrong = fixture.vestal(["skills", "check", "go"]).exits(1);
    assert!(
        wrong.stderr.contains("SKILL.md: line 2: \"GO\" is not a valid name for a skill"),
        "{wrong:?}"
    );
    assert_eq!(fixture.vestal(["skills", "check"]).exits(0).text(), "1 skill in order, 0 broken\n");
}

#[test]
fn a_zip_is_installed_whatever_it_is_called() {
    let fixture = ProgramFixture::new();
    // As Python's zipfile packs it.
    let packed = include_bytes!("skills/packed.skill");
    for name in ["packed.skill", "packed.zip", "download"] {
        fs::write(fixture.work().join(name), packed).unwrap();
        let installed = fixture
            .vestal(["skills", "install", name, "-y", "--replace", "--json"])
            .exits(0)
            .json();
        assert_eq!(installed["scripts"], json!(["scripts/go.sh"]));
        assert_eq!(installed["left_out"], json!(["packed/.env"]));
    }
    let dir = fixture.home().join("skills/packed");
    let went = std::process::Command::new(dir.join("scripts/go.sh")).output().unwrap();
    assert_eq!(went.stdout, b"went\n");
    assert!(!dir.join(".env").exists());
    let shown = fixture.vestal(["skills", "show", "packed"]).exits(0).text();
    assert!(shown.ends_with("Unpack it. Unpack it. Unpack it.\n"), "{shown}");
}

#[test]
fn a_broken_skill_is_replaced_or_removed_with_its_folder() {
    let fixture = ProgramFixture::new();
    skill(&fixture, "go", "");
    let dir = fixture.home().join("skills/go");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("SKILL.md"), "rubbish").unwrap();
    let taken = fixture.vestal(["skills", "install", "go", "-y"]).exits(1);
    assert!(taken.stderr.contains("to replace it: --replace"), "{taken:?}");
    let asked = fixture.vestal(["skills", "install", "go", "--replace"]).exits(2);
    assert!(asked.stderr.contains("replaces go: skill go is broken"));
    let replaced = fixture.vestal(["skills", "install", "go", "-y", "--replace"]).exits(0).text();
    assert!(replaced.starts_with("replaced go in "), "{replaced}");
    fs::write(dir.join("SKILL.md"), "rubbish").unwrap();
    let asked = fixture.vestal(["skills", "remove", "go"]).exits(2);
    let all = format!("{} will be removed, with everything in it", dir.display());
    assert!(asked.stderr.contains(&all), "{asked:?}");
    fixture.vestal(["skills", "remove", "go", "-y"]).exits(0);
    assert!(!dir.exists());
    // What is not a skill is not taken for one.
    fs::create_dir_all(dir.join("other")).unwrap();
    let occupied = fixture.vestal(["skills", "install", "go", "-y", "--replace"]).exits(1);
    assert!(occupied.stderr.contains("is in the way and is not a skill; move it"), "{occupied:?}");
}

#[test]
fn commands_get_what_skills_in_use_ask_for() {
    let fixture = ProgramFixture::new();
    let show = "echo ${GO_TOKEN-nothing}";
    assert_eq!(fixture.run(show).exits(0).text(), "nothing\n");
    skill(&fixture, "go", "required_environment_variables: [GO_TOKEN]\n");
    fixture.vestal(["skills", "install", "go", "-y"]).exits(0);
    fs::write(fixture.home().join(".env"), "GO_TOKEN=from-the-file\n").unwrap();
    fs::set_permissions(fixture.home().join(".env"), fs::Permissions::from_mode(0o600)).unwrap();
    let forwarded = fixture.run(show).exits(0);
    assert_eq!((&*forwarded.text(), &*forwarded.stderr), ("from-the-file\n", ""));
    fixture.vestal(["skills", "disable", "go"]).exits(0);
    assert_eq!(fixture.run(show).exits(0).text(), "nothing\n");
}

#[test]
fn the_agent_sees_skills_reads_one_and_runs_its_script() {
    let chat = ChatFixture::replies([
        ScriptedReply::tool_call("skill_view", json!({"name": "go"})),
        ScriptedReply::text("done"),
    ]);
    skill(&chat.fixture, "go", "required_environment_variables: [GO_TOKEN, GO_PLACE]\n");
    chat.vestal(["skills", "install", "go", "-y"]).exits(0);
    fs::create_dir_all(chat.fixture.home().join("skills/bad")).unwrap();
    fs::write(chat.fixture.home().join("skills/bad/SKILL.md"), "rubbish").unwrap();
    let secret = "a-token-that-nobody-is-shown";
    let mut command = chat.command(["chat", "-q", "go"]);
    let printed = finish(command.env("GO_TOKEN", secret).spawn().unwrap()).exits(0);
    assert_eq!(printed.stderr.matches("skill bad is broken").count(), 1, "{printed:?}");
    let requests = chat.model.requests();
    assert!(requests[0].system().contains("\n- go: About go."), "{}", requests[0].system());
    let seen = &requests[1].last_tool_results()[0];
    assert!(seen.contains("scripts/go.sh") && seen.contains("GO_PLACE is not set"), "{seen}");
    assert!(!seen.contains("GO_TOKEN is not set"), "{seen}");
    let seen: serde_json::Value = serde_json::from_str(seen).unwrap();
    let shown = PathBuf::from(seen["path"].as_str().unwrap());
    assert!(
        shown.join("scripts/go.sh").exists() && shown.starts_with(chat.fixture.home()),
        "{shown:?}"
    );
    // The next conversation runs it, and its secret is kept out of what is stored.
    let run = shown.join("scripts/go.sh").display().to_string();
    let script = Script::replies([terminal(&run), ScriptedReply::text("ran")]).strict();
    let chat = ChatFixture { model: ScriptedModel::start(script), ..chat };
    // Without isolation a script is asked about, and nobody is there.
    let mut command = chat.command(["chat", "--yolo", "-q", "again"]);
    finish(command.env("GO_TOKEN", secret).spawn().unwrap()).exits(0);
    let printed = &chat.model.requests()[1].last_tool_results()[0];
    assert!(printed.contains("went with") && !printed.contains(secret), "{printed}");
    assert!(!printed.contains("nothing"), "{printed}");
}
