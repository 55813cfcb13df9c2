//! Profiles as archives.

use std::fs;

use serde_json::json;

use super::create;
use crate::support::World;

#[test]
fn an_exported_profile_comes_back_without_its_secrets() {
    let world = World::new();
    create(&world, "work");
    let dir = world.home().join("profiles/work");
    let text = "# was hunter2\nmodel: {default: m, api_key: hunter2}\napprovals: {mode: off}\n";
    fs::write(dir.join("config.yaml"), text).unwrap();
    fs::write(dir.join(".env"), "OPENAI_API_KEY=hunter2\n").unwrap();
    fs::create_dir_all(dir.join("skills/deploy")).unwrap();
    fs::write(dir.join("skills/deploy/SKILL.md"), "how").unwrap();
    fs::write(dir.join("skills/deploy/.env"), "hunter2").unwrap();
    let exported = world.vestal(["profile", "export", "work", "--json"]).exits(0).json();
    assert_eq!(
        exported,
        json!({"name": "work", "path": "work.tar.gz", "files": 3,
            "left_out": [dir.join("skills/deploy/.env")], "settings_left_out": ["model.api_key"]})
    );
    let again = world.vestal(["profile", "export", "work"]).exits(1);
    assert!(again.stderr.contains("work.tar.gz exists"), "{again:?}");
    let taken = world.vestal(["profile", "import", "work.tar.gz"]).exits(1);
    assert!(taken.stderr.contains("there is a profile work already"), "{taken:?}");
    let imported =
        world.vestal(["profile", "import", "work.tar.gz", "--name", "copy", "--json"]).exits(0);
    let copy = world.home().join("profiles/copy");
    assert_eq!(
        imported.json(),
        json!({"name": "copy", "path": copy, "files": 3, "left_out": [],
            "telling_settings": ["approvals.mode"]})
    );
    let shown = world.vestal(["profile", "show", "copy", "--json"]).exits(0).json();
    assert_eq!((&shown["model"], &shown["skills"]), (&json!("m"), &json!(1)));
    for file in [".env", "config.yaml", "profile.json", "skills/deploy/SKILL.md"] {
        let text = fs::read_to_string(copy.join(file)).unwrap();
        assert!(!text.contains("hunter2"), "{file}: {text}");
    }
    world.vestal(["-p", "copy", "config", "check"]).exits(0);
}

#[test]
fn an_archive_that_is_none_is_refused_in_one_line() {
    let world = World::new();
    fs::write(world.work().join("text.tar.gz"), "text").unwrap();
    let refused = world.vestal(["profile", "import", "text.tar.gz", "--name", "a"]).exits(1);
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    assert!(refused.stderr.contains("is not imported"), "{refused:?}");
    assert!(!world.home().join("profiles/a").exists());
    world.vestal(["profile", "import", "absent.tar.gz"]).exits(125);
}
