use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use vestal_config::{Environment, Home, HomeNotFound};

use crate::testing::{ProfilesFixture, name};
use crate::*;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("there").mode() & 0o777
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_new_profile_is_for_its_user_alone() {
    let fixture = ProfilesFixture::new();
    let made =
        fixture.profiles.create(&name("Work"), &ProfileStart::Empty, " for pay ").expect("made");
    let dir = made.home.dir();
    assert_eq!(dir, fixture.root().join("profiles/work"));
    assert_eq!(names_in(&dir), [".env", "profile.json"]);
    assert_eq!((mode(&dir), mode(&dir.join(".env"))), (0o700, 0o600));
    assert_eq!(
        fs::read_to_string(dir.join("profile.json")).expect("there"),
        "{\"version\":1,\"description\":\"for pay\"}\n"
    );
    assert!(fixture.locate(&[], Some("work")).is_ok());
    assert_eq!(names_in(&fixture.root().join("profiles")), ["work"]);
}

#[test]
fn names_that_mean_something_else_are_refused() {
    let fixture = ProfilesFixture::new();
    for reserved in ["default", "vestal", "test", "tmp", "root", "sudo", "SUDO"] {
        let error =
            fixture.profiles.create(&name(reserved), &ProfileStart::Empty, "").expect_err(reserved);
        assert!(matches!(error, ProfileError::Reserved { .. }), "{error}");
    }
    assert!(!fixture.root().exists(), "a refusal makes nothing");
    fixture.create("a");
    let error = fixture.profiles.create(&name("A"), &ProfileStart::Empty, "").expect_err("there");
    assert!(matches!(error, ProfileError::Exists { .. }), "{error}");
    fs::write(fixture.root().join("profiles/file"), "").expect("written");
    assert!(fixture.profiles.create(&name("file"), &ProfileStart::Empty, "").is_err());
    let long = "x".repeat(501);
    for description in ["two\nlines", &long] {
        assert!(fixture.profiles.create(&name("b"), &ProfileStart::Empty, description).is_err());
    }
}

#[test]
fn a_clone_has_settings_secrets_persona_skills_and_memories_and_nothing_else() {
    let fixture = ProfilesFixture::new();
    let source = fixture.create("source").dir();
    for (path, text) in [
        ("config.yaml", "model: x\n"),
        (".env", "OPENAI_API_KEY=hunter2\nAPI_SERVER_KEY=mine\n export API_SERVER_KEY = 'mine'\n"),
        ("SOUL.md", "I am."),
        ("skills/a/SKILL.md", "how"),
        ("skills/a/run.sh", "#!/bin/sh"),
        ("memories/MEMORY.md", "what"),
        ("home.json", "{\"version\":1,\"id\":\"x\"}"),
        ("state.db", "conversations"),
        ("sandboxes/default/sandbox.json", "{}"),
        ("logs/agent.log", "line"),
        ("auth.json", "{}"),
    ] {
        let path = source.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }
    let loose = fs::Permissions::from_mode(0o666);
    fs::set_permissions(source.join(".env"), loose).expect("mode set");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(source.join("skills/a/run.sh"), executable).expect("mode set");
    symlink(source.join("memories"), source.join("skills/link")).expect("linked");
    let start = ProfileStart::CloneOf(name("source"));
    let made = fixture.profiles.create(&name("copy"), &start, "mine").expect("made");
    let copy = made.home.dir();
    assert_eq!(
        names_in(&copy),
        [".env", "SOUL.md", "config.yaml", "memories", "profile.json", "skills"]
    );
    assert_eq!(fs::read_to_string(copy.join(".env")).expect("there"), "OPENAI_API_KEY=hunter2\n");
    assert_eq!(fs::read_to_string(copy.join("skills/a/SKILL.md")).expect("there"), "how");
    assert_eq!((mode(&copy.join(".env")), mode(&copy.join("skills/a/run.sh"))), (0o600, 0o700));
    assert_eq!(names_in(&copy.join("skills")), ["a"], "links are not copied");
    assert_eq!(made.left_out, [source.join("skills/link")]);
    assert_eq!(made.secrets_left_out, ["API_SERVER_KEY"; 2], "keys to a profile open no other");
    // What is done to the copy is not seen by the source.
    fs::write(copy.join("memories/MEMORY.md"), "else").expect("written");
    assert_eq!(fs::read_to_string(source.join("memories/MEMORY.md")).expect("there"), "what");
    let missing = ProfileStart::CloneOf(name("nobody"));
    assert!(matches!(
        fixture.profiles.create(&name("other"), &missing, ""),
        Err(ProfileError::Missing { .. })
    ));
    assert_eq!(names_in(&fixture.root().join("profiles")), ["copy", "source"]);
}

#[test]
fn of_many_that_make_one_name_at_once_one_succeeds() {
    let fixture = ProfilesFixture::new();
    let made: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| fixture.profiles.create(&name("a"), &ProfileStart::Empty, "")))
            .collect();
        let results = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        results
            .map(|result| match result {
                Ok(_) => true,
                Err(ProfileError::Exists { .. }) => false,
                Err(error) => panic!("{error}"),
            })
            .collect()
    });
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
}

#[test]
fn what_a_crash_left_is_never_seen_and_goes_with_the_next_change() {
    let fixture = ProfilesFixture::new();
    fixture.create("a");
    for leftover in [".new-1-2-3", ".trash-1-2-3"] {
        fs::create_dir_all(fixture.root().join("profiles").join(leftover)).expect("made");
    }
    let listed = fixture.profiles.list(None);
    let names: Vec<_> = listed.profiles.iter().map(|view| view.name.as_str()).collect();
    assert_eq!((names, listed.strays.len()), (vec!["default", "a"], 0));
    fixture.create("b");
    assert_eq!(names_in(&fixture.root().join("profiles")), ["a", "b"]);
}

#[test]
fn the_flag_goes_before_the_variable_before_the_choice_before_default() {
    let fixture = ProfilesFixture::new();
    for own in ["a", "b", "c"] {
        fixture.create(own);
    }
    let used = |pairs: &[(&str, &str)], flag| {
        fixture.locate(pairs, flag).expect("found").profile().to_string()
    };
    let variable = [("VESTAL_PROFILE", "b")];
    assert_eq!(used(&[], None), "default");
    fixture.profiles.choose(&name("c")).expect("chosen");
    assert_eq!(fs::read_to_string(fixture.root().join("active_profile")).expect("there"), "c\n");
    assert_eq!(used(&[], None), "c");
    assert_eq!(used(&variable, None), "b");
    assert_eq!(used(&variable, Some("a")), "a");
    assert_eq!(used(&[], Some("default")), "default");
    fixture.profiles.choose(&name("default")).expect("chosen");
    assert!(!fixture.root().join("active_profile").exists());
    assert_eq!(used(&[], None), "default");
    assert!(matches!(fixture.profiles.choose(&name("no")), Err(ProfileError::Missing { .. })));
}

#[test]
fn a_choice_that_cannot_be_followed_locks_nobody_out() {
    let fixture = ProfilesFixture::new();
    fixture.create("a");
    let file = fixture.root().join("active_profile");
    let breakages: [&dyn Fn(); 5] = [
        &|| fs::write(&file, "gone\n").expect("written"),
        &|| fs::write(&file, "../../etc").expect("written"),
        &|| fs::write(&file, b"\xff\xfe").expect("written"),
        &|| fs::write(&file, "x".repeat(300)).expect("written"),
        &|| {
            fs::create_dir(&file).expect("made");
            fs::write(file.join("inside"), "").expect("written");
        },
    ];
    for breakage in breakages {
        breakage();
        let error = fixture.locate(&[], None).expect_err("broken");
        assert!(matches!(error, HomeNotFound::Choice { .. }), "{error}");
        assert!(error.to_string().ends_with("to go back: vestal profile use default"), "{error}");
        let (home, reported) = Home::locate_or_default(&fixture.env(&[]), None).expect("found");
        assert_eq!((home.profile().as_str(), reported), ("default", Some(error)));
        assert!(fixture.locate(&[], Some("a")).is_ok(), "a name that is given is not affected");
        assert_eq!(fixture.profiles.list(None).profiles.len(), 2);
        fixture.profiles.choose(&name("default")).expect("chosen");
        assert_eq!(fixture.locate(&[], None).expect("found").profile().as_str(), "default");
    }
    fs::write(&file, "\n").expect("written");
    assert_eq!(fixture.locate(&[], None).expect("nothing said").profile().as_str(), "default");
}

#[test]
fn a_root_that_cannot_be_used_is_not_taken_for_a_bad_choice() {
    let fixture = ProfilesFixture::new();
    let file = fixture.dir.path().join("file");
    fs::write(&file, "").expect("written");
    let env = Environment::from_pairs([("VESTAL_HOME", file.join("home"))]);
    assert_eq!(Home::locate(&env, None).map(|home| home.dir()), Ok(file.join("home")));
}

#[test]
fn one_odd_profile_keeps_no_other_from_being_listed() {
    let fixture = ProfilesFixture::new();
    let a = fixture.create("a").dir();
    let b = fixture.create("b").dir();
    fs::write(a.join("profile.json"), b"[\xff").expect("written");
    fs::write(b.join("config.yaml"), "model: some/model\n").expect("written");
    let c = fixture.create("c").dir();
    fs::write(c.join("profile.json"), "{\"version\": 99, \"new\": []}").expect("written");
    for odd in ["Zed", "with space"] {
        fs::create_dir(fixture.root().join("profiles").join(odd)).expect("made");
    }
    fs::write(fixture.root().join("profiles/file"), "").expect("written");
    let listed = fixture.profiles.list(fixture.locate(&[], Some("b")).ok().as_ref());
    let shown: Vec<_> = listed
        .profiles
        .iter()
        .map(|view| {
            (view.name.as_str(), view.model.as_deref(), view.problem.is_some(), view.current)
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("default", None, false, false),
            ("a", None, true, false),
            ("b", Some("some/model"), false, true),
            ("c", None, true, false)
        ]
    );
    let problem = listed.profiles[3].problem.as_deref().expect("newer");
    assert!(problem.contains("newer vestal (version 99)"), "{problem}");
    let strays: Vec<_> = listed.strays.iter().map(|stray| stray.path.file_name()).collect();
    assert_eq!(strays.len(), 3, "{strays:?}");
    assert!(listed.strays[0].reason.ends_with("rename the directory to zed"));
}

#[test]
fn a_profile_shows_what_it_has() {
    let fixture = ProfilesFixture::new();
    let dir = fixture.create("a").dir();
    fs::write(dir.join("config.yaml"), "model: {default: m, provider: p}\n").expect("written");
    fs::write(dir.join("SOUL.md"), "x").expect("written");
    fs::write(dir.join("state.db"), "x").expect("written");
    for path in ["sandboxes/default", "sandboxes/.trash-1", "skills/one", "skills/two"] {
        fs::create_dir_all(dir.join(path)).expect("made");
    }
    fixture.profiles.choose(&name("a")).expect("chosen");
    let shown = fixture.profiles.show(&name("a"), None).expect("shown");
    assert_eq!(
        serde_json::to_value(&shown).expect("json"),
        serde_json::json!({
            "name": "a", "path": dir, "active": true, "current": false, "description": "",
            "model": "m", "problem": null, "provider": "p", "sandboxes": 1, "conversations": true,
            "skills": 2, "memories": 0, "soul": true,
        })
    );
    assert!(fixture.profiles.show(&name("no"), None).is_err());
    assert!(fixture.profiles.show(&name("default"), None).is_ok());
}

#[test]
fn a_renamed_profile_keeps_its_files_and_the_choice_follows() {
    let fixture = ProfilesFixture::new();
    let dir = fixture.create("a").dir();
    fs::write(dir.join("home.json"), "id").expect("written");
    fixture.create("b");
    fixture.profiles.choose(&name("a")).expect("chosen");
    let refused = |from: &str, to: &str| {
        fixture.profiles.rename(&name(from), &name(to)).expect_err("refused").to_string()
    };
    assert!(refused("default", "x").contains("cannot be renamed"));
    assert!(refused("a", "b").contains("already"));
    assert!(refused("a", "sudo").contains("no profile can be called"));
    assert!(refused("no", "x").contains("there is no profile no"));
    assert_eq!(fixture.profiles.chosen(), Some(name("a")));
    let home = fixture.profiles.rename(&name("a"), &name("z")).expect("renamed");
    assert_eq!(fs::read_to_string(home.dir().join("home.json")).expect("there"), "id");
    assert_eq!(names_in(&fixture.root().join("profiles")), ["b", "z"]);
    assert_eq!(fixture.profiles.chosen(), Some(name("z")));
}

#[test]
fn a_deleted_profile_leaves_nothing_and_the_choice_goes_back() {
    let fixture = ProfilesFixture::new();
    let dir = fixture.create("a").dir();
    fs::create_dir_all(dir.join("skills/x")).expect("made");
    fixture.profiles.choose(&name("a")).expect("chosen");
    fixture.create("alpha");
    assert!(matches!(fixture.profiles.delete(&name("default")), Err(ProfileError::Default { .. })));
    fixture.profiles.delete(&name("a")).expect("deleted");
    assert_eq!(names_in(&fixture.root().join("profiles")), ["alpha"]);
    assert_eq!(fixture.locate(&[], None).expect("found").profile().as_str(), "default");
    assert!(matches!(fixture.profiles.delete(&name("a")), Err(ProfileError::Missing { .. })));
}
