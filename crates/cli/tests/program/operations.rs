//! Long actions, on record for every process.

use serde_json::{Value, json};

use crate::support::ProgramFixture;

/// Returns the members of an action that do not differ from run to run.
fn facts(action: &Value) -> Value {
    let Value::Object(all) = action else { panic!("{action}") };
    let stays = ["task", "verb", "what", "by", "state", "result"];
    stays
        .iter()
        .map(|name| ((*name).to_owned(), all[*name].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[test]
fn what_a_command_does_to_a_sandbox_is_listed_shown_and_followed() {
    let fixture = ProgramFixture::native();
    let none = fixture.vestal(["operations"]).exits(0);
    assert_eq!(
        (none.text().as_str(), none.stderr.contains("no long actions")),
        ("", true),
        "{none:?}"
    );
    fixture.vestal(["operations", "watch"]).exits(1);
    fixture.run("echo one > file").exits(0);
    fixture.vestal(["snapshot", "--name", "good"]).exits(0);
    fixture.vestal(["restore", "-y", "default", "good"]).exits(0);
    fixture.vestal(["snapshots", "rm", "-y", "default", "good"]).exits(0);
    fixture.vestal(["rm", "-y", "--files", "default"]).exits(0);

    let listed = fixture.vestal(["operations", "--json"]).exits(0).json();
    let listed = listed.as_array().unwrap();
    let verbs: Vec<&str> = listed.iter().map(|one| one["verb"].as_str().unwrap()).collect();
    assert_eq!(verbs, ["remove", "remove_snapshot", "restore", "snapshot"], "the newest first");
    let removed = json!({
        "task": "default", "verb": "remove_snapshot", "what": "removing its snapshot good", "by": "vestal",
        "state": "done", "result": "removed snapshot good of default",
    });
    assert_eq!(facts(&listed[1]), removed);
    assert_eq!(fixture.vestal(["operations", "--running", "--json"]).exits(0).json(), json!([]));

    let id = listed[3]["id"].as_str().unwrap();
    let shown =
        fixture.vestal(["operations", "show", &id[id.len() - 8..], "--json"]).exits(0).json();
    assert_eq!(shown, listed[3]);
    let watched = fixture.vestal(["operations", "watch", id]).exits(0);
    assert!(watched.text().starts_with("saved default as good ("), "{watched:?}");
    let unknown = fixture.vestal(["operations", "show", "o-0000"]).exits(1);
    assert!(unknown.stderr.contains("vestal operations"), "{unknown:?}");
}
