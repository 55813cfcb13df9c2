//! Directories of the host that are in a sandbox at the same path.

use std::path::{Path, PathBuf};

use vestal_sandbox::{Command, Engine, Error, FilesOnRemoval, Overrides, Reach, Sandbox, TaskName};

use crate::support::{BackendFixture, Kind};

/// No directory of the fixture is in a container by itself.
const NOTHING_ELSE: &str = "terminal.docker_volumes=[]";

fn task() -> TaskName {
    "kanban-t_1".parse().unwrap()
}

async fn run(sandbox: &Sandbox, text: &str) -> String {
    sandbox.run(Command::shell(text)).await.unwrap().stdout.text()
}

/// Makes a directory of the user's with its name in a file, and that the user who runs
/// commands may write to.
fn project(fixture: &BackendFixture, name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = fixture.scratch(name);
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(dir.join("name"), format!("{name}\n")).unwrap();
    dir
}

async fn with(fixture: &BackendFixture, binds: &[&Path], cwd: &Path) -> Result<Sandbox, Error> {
    let asked = Overrides {
        binds: binds.iter().map(|bind| bind.to_path_buf()).collect(),
        cwd: Some(cwd.to_owned()),
        ..Overrides::default()
    };
    fixture.engine_with(&[NOTHING_ELSE]).sandbox_with(&task(), &asked).await
}

pub(crate) async fn directories_of_the_host_are_at_the_same_path(fixture: &BackendFixture) {
    let (tree, repository) = (project(fixture, "a tree"), project(fixture, "repository"));
    let sandbox = with(fixture, &[&tree, &repository], &tree).await.unwrap();
    let text = format!("pwd; cat name '{}/name'; echo made > made", repository.display());
    assert_eq!(run(&sandbox, &text).await, format!("{}\na tree\nrepository\n", tree.display()));
    assert_eq!(std::fs::read(tree.join("made")).unwrap(), b"made\n");
    // So they are for files, and for later callers that ask for nothing.
    let files = sandbox.files(None).await.unwrap();
    assert_eq!(files.read("name", 100).await.unwrap(), b"a tree\n");
    let later = fixture.engine_with(&[NOTHING_ELSE]).sandbox(&task()).await.unwrap();
    assert_eq!(later.instance().await, sandbox.instance().await);
    assert_eq!(run(&later, "cat name").await, "a tree\n");
    // Nobody else's sandbox has them.
    if fixture.is_contained() {
        let other = fixture.engine_with(&[NOTHING_ELSE]).sandbox(&TaskName::default_task()).await;
        let look = format!("ls '{}' 2>/dev/null || echo none", tree.display());
        assert_eq!(run(&other.unwrap(), &look).await, "none\n");
        assert!(matches!(sandbox.reach().await, Reach::Mounts(openings) if openings.len() == 2));
    }
    // They are the user's, whatever becomes of the sandbox.
    drop((sandbox, later));
    fixture.engine().remove(&task(), FilesOnRemoval::Remove).await.unwrap();
    assert_eq!(std::fs::read(tree.join("made")).unwrap(), b"made\n");
}

pub(crate) async fn a_directory_that_cannot_be_there_is_refused_by_name(fixture: &BackendFixture) {
    let missing = fixture.scratch("missing");
    for wrong in [&*missing, Path::new("relative/dir"), Path::new("/etc/passwd")] {
        let refused = with(fixture, &[wrong], Path::new("/")).await.unwrap_err();
        assert!(matches!(&refused, Error::Bind { path, .. } if path == wrong), "{refused}");
    }
    assert_eq!(fixture.engine().list().await.unwrap(), []);
}

pub(crate) async fn a_sandbox_with_other_directories_is_made_anew(fixture: &BackendFixture) {
    let (a, b) = (project(fixture, "a"), project(fixture, "b"));
    let first = with(fixture, &[&a], &a).await.unwrap();
    run(&first, "echo kept > ~/kept").await;
    let job = first.spawn(Command::shell("sleep 1000")).await.unwrap();
    let refused = with(fixture, &[&b], &b).await.unwrap_err();
    assert!(matches!(refused, Error::Tightened { .. }), "{refused}");
    first.kill(&job.id).await.unwrap();

    let was_in = first.instance().await;
    let second = with(fixture, &[&b], &b).await.unwrap();
    assert_eq!(second.instance().await == was_in, fixture.keeps_instances());
    let look = format!("cat name ~/kept; ls '{}' 2>/dev/null || echo none", a.display());
    assert_eq!(run(&second, &look).await, "b\nkept\nnone\n");
    assert_eq!(fixture.own_containers().len(), 1);
    let more = with(fixture, &[&a, &b], &b).await.unwrap();
    assert_eq!(run(&more, &format!("cat name '{}/name'", a.display())).await, "b\na\n");
}

pub(crate) async fn places_of_the_system_are_not_covered(fixture: &BackendFixture) {
    for place in ["/usr", "/proc/self"] {
        let refused = with(fixture, &[Path::new(place)], Path::new("/")).await.unwrap_err();
        assert!(matches!(refused, Error::Backend { .. }), "{refused}");
        assert!(refused.to_string().contains(place), "{refused}");
    }
    assert_eq!(fixture.own_containers().len(), 0);
}

/// Places and what becomes of what is in them when the instance is stopped, and
/// when it is removed.
const PLACES: [(&str, bool, bool); 7] = [
    ("/workspace", true, true),
    ("$HOME", true, true),
    ("/usr", true, false),
    ("/opt", true, false),
    ("/tmp", false, false),
    ("/run", false, false),
    ("/var/tmp", false, false),
];

/// Returns whether something can be left in a place at all: the system that an
/// ordinary user's sandbox is made of is the host's, and stays as it is.
fn can_be_written(fixture: &BackendFixture, place: &str) -> bool {
    let shown = matches!(fixture.kind(), Kind::Native) && !rustix::process::getuid().is_root();
    !(shown && ["/usr", "/opt"].contains(&place))
}

async fn mark(engine: &Engine) {
    let places: Vec<&str> = PLACES.iter().map(|(place, ..)| *place).collect();
    let text = format!("for p in {}; do mkdir -p $p; echo > $p/mark; done; true", places.join(" "));
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(sandbox.run(Command::shell(text)).await.unwrap().exit.code, Some(0));
}

/// Returns which of the places still have their mark.
async fn marked(engine: &Engine) -> Vec<bool> {
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let mut marked = Vec::new();
    for (place, ..) in PLACES {
        let command = Command::shell(format!("[ -e {place}/mark ]"));
        marked.push(sandbox.run(command).await.unwrap().exit.code == Some(0));
    }
    marked
}

pub(crate) async fn files_are_kept_as_long_as_their_place_says(fixture: &BackendFixture) {
    mark(&fixture.engine()).await;
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    let expected = PLACES.map(|(place, stopped, _)| stopped && can_be_written(fixture, place));
    assert_eq!(marked(&fixture.engine()).await, expected);
    mark(&fixture.engine()).await;
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Keep).await.unwrap();
    assert_eq!(marked(&fixture.engine()).await, PLACES.map(|(.., removed)| removed));
}

pub(crate) async fn files_that_are_not_to_be_kept_are_never_on_disk(fixture: &BackendFixture) {
    let fleeting = || fixture.engine_with(&["terminal.container_persistent=false"]);
    mark(&fleeting()).await;
    assert_eq!(fixture.left_of("default"), ["instances", "lock", "sandbox.json", "state"]);
    fleeting().stop(&TaskName::default_task()).await.unwrap();
    let expected = PLACES.map(|(place, stopped, _)| {
        stopped && !is_of_the_sandbox(place) && can_be_written(fixture, place)
    });
    assert_eq!(marked(&fleeting()).await, expected);
    let removal = fleeting().remove(&TaskName::default_task(), FilesOnRemoval::Keep).await.unwrap();
    assert_eq!((removal.instances, removal.kept), (1, Vec::new()));
    assert!(!fixture.sandbox_dir("default").exists(), "there is nothing to keep");
}

fn is_of_the_sandbox(place: &str) -> bool {
    ["/workspace", "$HOME"].contains(&place)
}
