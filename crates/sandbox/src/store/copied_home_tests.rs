use std::fs::File;

use jiff::Timestamp;
use serde_json::json;
use vestal_process::ProcessId;

use super::*;
use crate::Overrides;
use crate::backends::local::DECLARATION;
use crate::backends::registered;

fn declared() -> Vec<&'static Declaration> {
    registered().collect()
}

fn key(home: &HomeId, task: &str) -> Key {
    Key::new(home.clone(), "default", task.parse().unwrap())
}

/// Writes the record of a sandbox with one instance, and another instance that
/// no record names.
fn sandbox(sandboxes: &Path, home: &HomeId, task: &str, backend: &str) -> SandboxDir {
    let dir = SandboxDir::new(sandboxes.join(task));
    for id in ["first", "second"] {
        fs::create_dir_all(dir.instance_dir(id).join("io")).unwrap();
    }
    fs::create_dir_all(dir.path().join("workspace")).unwrap();
    let mut record =
        SandboxRecord::new(&key(home, task), backend, Overrides::default(), Timestamp::UNIX_EPOCH);
    record.generation = 3;
    record.instance = Some(InstanceRecord {
        id: "first".to_owned(),
        created_at: Timestamp::UNIX_EPOCH,
        spec: std::collections::BTreeMap::default(),
        retention_seconds: None,
        locator: json!({ "of": "the original" }),
    });
    dir.write_record(&record).unwrap();
    dir.write_intent(Intent::Stop { instance: "first".to_owned(), if_idle: false }).unwrap();
    dir
}

#[test]
fn a_copied_home_keeps_its_files_and_lets_go_of_what_is_the_originals() {
    let home = tempfile::tempdir().unwrap();
    let sandboxes = home.path().join("sandboxes");
    let (old, new) = (HomeId("old".into()), HomeId("new".into()));
    let container = sandbox(&sandboxes, &old, "container", "docker");
    let system = sandbox(&sandboxes, &old, "system", "native");
    let foreign = sandbox(&sandboxes, &HomeId("other".into()), "foreign", "docker");
    let was_foreign = foreign.read_record().unwrap();
    // A native instance names a process, which is alive: this one.
    let first = system.instance_dir("first");
    let me = ProcessId::current().unwrap();
    let init = json!({ "pid": me.pid, "pid_start": me.start, "boot": me.boot });
    fs::write(first.join("init.json"), init.to_string()).unwrap();
    let label = json!({
        "version": 1, "key": key(&old, "system").hash(), "task": "system", "generation": 3,
        "spec": "s", "created_at": Timestamp::UNIX_EPOCH,
        "made": { "uid": 0, "tier": "overlay", "cgroups": ["/sys/fs/cgroup/vestal-first"] },
    });
    fs::write(first.join("label.json"), label.to_string()).unwrap();
    fs::create_dir(first.join("layers")).unwrap();

    for _again in 0..2 {
        adopt_sandboxes(&sandboxes, &old, &new, &declared()).unwrap();
        let record = container.read_record().unwrap().unwrap();
        assert_eq!((record.key, record.generation), (key(&new, "container").hash(), 3));
        assert_eq!(record.instance, None);
        assert!(container.path().join("workspace").is_dir());
        assert_eq!(container.instance_ids().unwrap(), [""; 0]);

        let record = system.read_record().unwrap().unwrap();
        assert_eq!(record.key, key(&new, "system").hash());
        let instance = record.instance.unwrap();
        assert_eq!(system.instance_ids().unwrap(), std::slice::from_ref(&instance.id));
        assert_ne!(instance.id, "first");
        assert_eq!(instance.locator, serde_json::Value::Null);
        let kept = system.instance_dir(&instance.id);
        assert!(kept.join("layers").is_dir(), "what is installed is kept");
        assert!(!kept.join("init.json").exists(), "no process is its own");
        let label = fs::read_to_string(kept.join("label.json")).unwrap();
        assert!(label.contains(&key(&new, "system").hash()) && !label.contains("cgroup/"));

        for dir in [&container, &system] {
            assert_eq!(dir.read_intent().unwrap(), None);
        }
        assert_eq!(foreign.read_record().unwrap(), was_foreign);
        assert_eq!(foreign.instance_ids().unwrap(), ["first", "second"]);
    }
}

#[test]
fn the_directory_of_an_instance_that_runs_is_not_renamed() {
    let home = tempfile::tempdir().unwrap();
    let (old, new) = (HomeId("old".into()), HomeId("new".into()));
    let dir = sandbox(home.path(), &old, "task", "native");
    let was = dir.read_record().unwrap();
    // This process is the guest: it holds the directory of its socket.
    let me = ProcessId::current().unwrap();
    let init = json!({ "pid": me.pid, "pid_start": me.start, "boot": me.boot });
    fs::write(dir.instance_dir("first").join("init.json"), init.to_string()).unwrap();
    let _held = fs::File::open(dir.instance_dir("first").join("io")).unwrap();
    let refused = adopt_sandboxes(home.path(), &old, &new, &declared()).unwrap_err().to_string();
    assert!(refused.contains("its guest is running on these files"), "{refused}");
    assert_eq!(dir.read_record().unwrap(), was);
    assert_eq!(dir.instance_ids().unwrap(), ["first", "second"]);
}

#[test]
fn a_copied_home_does_not_take_the_sandboxes_that_the_original_keeps_elsewhere() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let open = |home: &str, sandboxes: &str| {
        let set = format!("terminal.sandbox_dir={}", path(sandboxes).display());
        let sets = vec![vestal_config::Override::parse(&crate::schema(), &set).unwrap()];
        let env = vestal_config::Environment::from_pairs([("HOME", root.path())]);
        let settings = vestal_config::Settings::load(
            &crate::schema(),
            vestal_config::Home::at(path(home)),
            env,
            sets,
        );
        crate::Engine::with_backends(settings, Vec::new())
    };
    let id = open("home", "elsewhere").unwrap().inner.home_id.clone();
    let dir = sandbox(&path("elsewhere"), &id, "task", "docker");
    let was = dir.read_record().unwrap();
    let copied =
        std::process::Command::new("cp").arg("-a").args([path("home"), path("copy")]).status();
    assert!(copied.unwrap().success());
    for _again in 0..2 {
        let refused = open("copy", "elsewhere").unwrap_err().to_string();
        for part in [path("home"), path("elsewhere"), "--set terminal.sandbox_dir".into()] {
            assert!(refused.contains(&*part.to_string_lossy()), "{refused}");
        }
    }
    assert_ne!(open("copy", "own").unwrap().inner.home_id, id);
    assert_eq!(dir.read_record().unwrap(), was);
    assert_eq!(open("home", "elsewhere").unwrap().inner.home_id, id);
}

#[test]
fn a_guest_tells_by_the_directory_it_holds_which_home_it_is_of() {
    let root = tempfile::tempdir().unwrap();
    let me = ProcessId::current().unwrap();
    let sandbox = |home: &str, id: &str| {
        let dir = SandboxDir::new(root.path().join(home));
        let io = dir.instance_dir(id).join("io");
        fs::create_dir_all(&io).unwrap();
        let instance = InstanceRecord {
            id: id.to_owned(),
            created_at: jiff::Timestamp::UNIX_EPOCH,
            spec: std::collections::BTreeMap::default(),
            retention_seconds: None,
            locator: json!({ "process": me }),
        };
        (dir, instance, io)
    };
    let (copy, instance, _) = sandbox("copy", "i");
    let (original, _, io) = sandbox("original", "i");
    // This process is the guest: it holds the directory of the original.
    let _held = File::open(&io).unwrap();
    assert_eq!(guests_of(&original, &DECLARATION, &instance), Guests::Here);
    assert_eq!(guests_of(&copy, &DECLARATION, &instance), Guests::Elsewhere);
    fs::remove_dir_all(original.path()).unwrap();
    assert_eq!(
        guests_of(&copy, &DECLARATION, &instance),
        Guests::None,
        "what it holds has no name left"
    );
    let dead = ProcessId { start: 1, ..me.clone() };
    let gone = InstanceRecord { locator: json!({ "process": dead }), ..instance };
    assert_eq!(guests_of(&copy, &DECLARATION, &gone), Guests::None);
}
