use std::os::unix::fs::symlink;

use vestal_config::{Environment, Home, Override};

use super::*;

struct World {
    root: PathBuf,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("home")).unwrap();
        fs::create_dir_all(root.join("project/deep")).unwrap();
        Self { root, _dir: dir }
    }

    fn settings(&self, sandbox_dir: &str) -> Settings {
        let dir = self.root.join(sandbox_dir);
        let set = format!("terminal.sandbox_dir={}", dir.display());
        let env = Environment::from_pairs([("HOME", "/nonexistent")]);
        Settings::load(Home::at(self.root.join("home")), env, vec![Override::parse(&set).unwrap()])
    }

    fn admit(&self, sandbox_dir: &str) -> Result<(), String> {
        let opened = crate::Engine::with_backends(self.settings(sandbox_dir), Vec::new());
        opened.map(drop).map_err(|error| error.to_string())
    }

    /// Has a sandbox been given a directory to write to.
    fn give(&self, dir: &str) {
        super::super::expose(&self.root.join("home"), &self.root.join(dir));
    }
}

#[test]
fn a_directory_that_a_sandbox_could_write_to_before_holds_no_sandboxes() {
    let world = World::new();
    world.give("project");
    for dir in ["project/sandboxes", "project/deep/not/there", "project"] {
        let said = world.admit(dir).unwrap_err();
        assert!(said.contains(&world.root.join(dir).display().to_string()), "{said}");
        assert!(said.contains("terminal.sandbox_dir"), "{said}");
    }
    symlink(world.root.join("project"), world.root.join("link")).unwrap();
    world.admit("link/sandboxes").unwrap_err();
    assert_eq!(world.admit("elsewhere"), Ok(()));
    assert_eq!(world.admit("home/sandboxes"), Ok(()));
}

#[test]
fn one_that_held_sandboxes_before_is_covered_and_goes_on_doing_so() {
    let world = World::new();
    assert_eq!(world.admit("project/sandboxes"), Ok(()));
    world.give("project");
    assert_eq!(world.admit("project/sandboxes"), Ok(()));
    // Also while the setting names another one.
    let ours = super::super::Ours::of(&world.settings("elsewhere")).unwrap();
    assert!(ours.hidden.contains(&world.root.join("project/sandboxes")), "{ours:?}");
}

#[test]
fn what_records_of_earlier_versions_name_is_known() {
    let world = World::new();
    let dir = world.root.join("home/profiles/p/sandboxes/default");
    fs::create_dir_all(&dir).unwrap();
    let record = serde_json::json!({
        "version": 1,
        "overrides": { "mount": "/a/mounted", "binds": ["/a/bound"] },
        "instance": { "spec": {
            "terminal.docker_volumes": "[\"/a/volume:/v\",\"/a/read:/r:ro\",\"named:/n\",\"~/x:/x\"]",
        } },
    });
    fs::write(dir.join("sandbox.json"), record.to_string()).unwrap();
    let records = records(&world.root.join("home"), &world.root.join("elsewhere"));
    let found = given(&records, Some(Path::new("/home/ada")));
    let expected = ["/a/volume", "/home/ada/x", "/a/mounted", "/a/bound"].map(PathBuf::from);
    assert_eq!(found, expected);
}
