//! Profiles whose sandboxes are containers.

use std::fs;

use serde_json::Value;

use super::create;
use crate::support::ProgramFixture;

/// Returns the containers of a profile's home, whatever state they are in.
fn containers(fixture: &ProgramFixture, id: &str) -> Vec<String> {
    fixture.engine().names_with(&format!("vestal-home={id}"))
}

/// Returns the id of a profile's home.
fn id(fixture: &ProgramFixture, profile: &str) -> String {
    let file = fixture.home().join("profiles").join(profile).join("home.json");
    let home: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    home["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_renamed_profile_keeps_workspace_and_home_and_a_deleted_one_leaves_no_container() {
    let fixture = ProgramFixture::docker();
    create(&fixture, "work");
    fixture
        .vestal(["-p", "work", "run", "echo kept > /workspace/file; echo too > ~/file"])
        .exits(0);
    let id = id(&fixture, "work");
    let before = containers(&fixture, &id);
    assert_eq!(before.len(), 1, "{before:?}");
    fixture.vestal(["profile", "rename", "work", "office", "-y"]).exits(0);
    assert_eq!(containers(&fixture, &id), [""; 0]);
    let read = ["-p", "office", "run", "cat /workspace/file ~/file"];
    assert_eq!(fixture.vestal(read).exits(0).text(), "kept\ntoo\n");
    let after = containers(&fixture, &id);
    assert_eq!(after.len(), 1, "{after:?}");
    let labels = fixture.engine().inspect(&after[0]).unwrap()["Config"]["Labels"].clone();
    assert_eq!(labels["vestal-profile"], "office");
    // Files in a workspace may be another user's.
    fixture.vestal(["-p", "office", "run", "mkdir /workspace/d; touch /workspace/d/f"]).exits(0);
    fixture.vestal(["profile", "delete", "office", "-y"]).exits(0);
    assert_eq!(containers(&fixture, &id), [""; 0]);
    assert_eq!(fs::read_dir(fixture.home().join("profiles")).unwrap().count(), 0);
}

#[test]
fn nothing_of_a_profile_is_deleted_while_its_engine_does_not_answer() {
    let fixture = ProgramFixture::docker();
    create(&fixture, "work");
    fixture.vestal(["-p", "work", "run", "echo kept > /workspace/file"]).exits(0);
    fixture.vestal(["-p", "work", "stop", "default"]).exits(0);
    let nobody = format!("unix://{}/no-engine.sock", fixture.work().display());
    for args in
        [&["profile", "delete", "work", "-y"][..], &["profile", "rename", "work", "office", "-y"]]
    {
        let mut command = fixture.command(args);
        command.env("DOCKER_HOST", &nobody);
        let refused = crate::support::finish(command.spawn().unwrap()).exits(125);
        assert!(refused.stderr.contains("nothing was changed"), "{refused:?}");
        assert!(refused.stderr.contains("default on docker"), "{refused:?}");
    }
    let read = ["-p", "work", "run", "cat /workspace/file"];
    assert_eq!(fixture.vestal(read).exits(0).text(), "kept\n");
    let id = id(&fixture, "work");
    fixture.vestal(["profile", "delete", "work", "-y"]).exits(0);
    assert_eq!(containers(&fixture, &id), [""; 0]);
}
