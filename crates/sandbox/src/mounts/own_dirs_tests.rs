use std::os::unix::fs::symlink;

use vestal_config::{Environment, Home, Override};

use super::super::{MountCover, covers};
use super::*;

struct SandboxDirs {
    root: PathBuf,
    _dir: tempfile::TempDir,
}

impl SandboxDirs {
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
        Settings::load(
            &crate::schema(),
            Home::at(self.root.join("home")),
            env,
            vec![Override::parse(&crate::schema(), &set).unwrap()],
        )
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
    let dirs = SandboxDirs::new();
    dirs.give("project");
    for dir in ["project/sandboxes", "project/deep/not/there", "project"] {
        let refusal = dirs.admit(dir).unwrap_err();
        assert!(refusal.contains(&dirs.root.join(dir).display().to_string()), "{refusal}");
        assert!(refusal.contains("terminal.sandbox_dir"), "{refusal}");
    }
    symlink(dirs.root.join("project"), dirs.root.join("link")).unwrap();
    dirs.admit("link/sandboxes").unwrap_err();
    assert_eq!(dirs.admit("elsewhere"), Ok(()));
    assert_eq!(dirs.admit("home/sandboxes"), Ok(()));
}

#[test]
fn one_that_held_sandboxes_before_is_covered_and_goes_on_doing_so() {
    let dirs = SandboxDirs::new();
    assert_eq!(dirs.admit("project/sandboxes"), Ok(()));
    dirs.give("project");
    assert_eq!(dirs.admit("project/sandboxes"), Ok(()));
    // Also while the setting names another one.
    let own_dirs = super::super::OwnDirs::of(&dirs.settings("elsewhere")).unwrap();
    assert!(own_dirs.hidden.contains(&dirs.root.join("project/sandboxes")), "{own_dirs:?}");
}

#[test]
fn a_note_that_was_cut_off_hides_nothing_and_is_written_again() {
    let dirs = SandboxDirs::new();
    for left in ["", "/"] {
        assert_eq!(dirs.admit("elsewhere"), Ok(()));
        let dir = dirs.root.join("elsewhere");
        let note = dirs.root.join("home").join(NAME).join(note_name(&dir));
        fs::write(&note, left).unwrap();
        fs::write(note.with_extension("0.tmp"), "/").unwrap();
        assert_eq!(known(&dirs.root.join("home")), Vec::<PathBuf>::new(), "{left:?}");
        assert_eq!(dirs.admit("elsewhere"), Ok(()));
        assert_eq!(known(&dirs.root.join("home")), [dir], "{left:?}");
    }
}

#[test]
fn what_sandboxes_of_earlier_versions_could_write_to_is_known_from_the_first_look_on() {
    let made = || {
        let dirs = SandboxDirs::new();
        let dir = dirs.root.join("home/sandboxes/default");
        fs::create_dir_all(&dir).unwrap();
        let record = serde_json::json!({ "overrides": { "mount": dirs.root.join("project") } });
        fs::write(dir.join("sandbox.json"), record.to_string()).unwrap();
        dirs
    };
    let dirs = made();
    let refusal = dirs.admit("project/sandboxes").unwrap_err();
    assert!(refusal.contains("terminal.sandbox_dir"), "{refusal}");

    let dirs = made();
    let (settings, link) = (dirs.settings("elsewhere"), dirs.root.join("project/link"));
    symlink(dirs.root.join("home"), &link).unwrap();
    let refusal = super::super::planted_link(&settings, &link).unwrap().unwrap();
    assert!(refusal.contains("may be its doing"), "{refusal}");

    let dirs = made();
    let own_dirs = super::super::OwnDirs::of(&dirs.settings("elsewhere")).unwrap();
    let link = dirs.root.join("project/link");
    symlink(dirs.root.join("project/deep"), &link).unwrap();
    let reached = walk(&link, |_, _| false).unwrap();
    let mounts = super::super::Mounts::found(&link, &reached);
    assert!(!super::super::are_unmoved(&own_dirs, &mounts));
}

#[test]
fn notes_on_homes_are_covered_in_sandboxes_that_the_users_home_is_mounted_in() {
    let dirs = SandboxDirs::new();
    let user = dirs.root.join("user");
    fs::create_dir(&user).unwrap();
    symlink(&user, dirs.root.join("link")).unwrap();
    for name in ["user", "link"] {
        let env = Environment::from_pairs([("HOME", dirs.root.join(name).as_os_str())]);
        let settings =
            Settings::load(&crate::schema(), Home::at(dirs.root.join("home")), env, Vec::new());
        let own_dirs = super::super::OwnDirs::of(&settings).unwrap();
        own_dirs.make_missing(&user);
        let covers = covers(&own_dirs.hidden, &user, Path::new("/w"));
        let targets: Vec<PathBuf> = covers.into_iter().map(|cover| cover.target).collect();
        let expected = ["/w/.local/state/vestal/homes", "/w/.vestal"].map(PathBuf::from);
        assert_eq!(targets, expected, "{name}");
        fs::remove_dir_all(user.join(".local")).unwrap();
    }
}

#[test]
fn what_records_of_earlier_versions_name_is_known() {
    let dirs = SandboxDirs::new();
    let dir = dirs.root.join("home/profiles/p/sandboxes/default");
    fs::create_dir_all(&dir).unwrap();
    let record = serde_json::json!({
        "version": 1,
        "overrides": { "mount": "/a/mounted", "binds": ["/a/bound"] },
        "instance": { "spec": {
            "terminal.docker_volumes": "[\"/a/volume:/v\",\"/a/read:/r:ro\",\"named:/n\",\"~/x:/x\"]",
        } },
    });
    fs::write(dir.join("sandbox.json"), record.to_string()).unwrap();
    let records = records(&dirs.root.join("home"), &dirs.root.join("elsewhere"));
    let found = given(&records, Some(Path::new("/home/ada")));
    let expected = ["/a/volume", "/home/ada/x", "/a/mounted", "/a/bound"].map(PathBuf::from);
    assert_eq!(found, expected);
}

#[test]
fn the_home_is_covered_wherever_it_would_be_seen() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let home = root.join("a/b/vestal");
    std::fs::create_dir_all(home.join("sandboxes")).unwrap();
    let hidden = [home.join("sandboxes"), home.clone(), root.join("missing")];
    let at = |source: &Path| covers(&hidden, source, Path::new("/w"));
    assert_eq!(
        at(root),
        [MountCover {
            fixed: vec![(root.join("a"), "/w/a".into()), (root.join("a/b"), "/w/a/b".into()),],
            target: "/w/a/b/vestal".into(),
        }]
    );
    assert_eq!(at(&root.join("a/b")), [MountCover { fixed: vec![], target: "/w/vestal".into() }]);
    assert_eq!(at(&root.join("a/other")), []);
}

#[test]
fn a_directory_whose_link_leads_to_the_home_is_not_given_away() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("user/project")).unwrap();
    std::fs::create_dir_all(root.join("disk/vestal")).unwrap();
    let link = root.join("user/.vestal");
    std::os::unix::fs::symlink(root.join("disk/vestal"), &link).unwrap();
    let own_dirs = OwnDirs {
        hidden: vec![root.join("disk/vestal")],
        links: links_on_the_way(&link),
        ..OwnDirs::bare(link.clone())
    };
    let refused = |path: &str| {
        let path = root.join(path);
        let reached = walk(&path, |_, _| false).unwrap();
        own_dirs.refuse_links(&path, &reached).map_err(|error| error.to_string())
    };
    let refusal = refused("user").unwrap_err();
    assert!(refusal.contains(&format!("{} is in it", link.display())), "{refusal}");
    assert_eq!(refused("user/project"), Ok(()));
    assert_eq!(refused("disk"), Ok(()), "what is covered there is the home itself");
}
