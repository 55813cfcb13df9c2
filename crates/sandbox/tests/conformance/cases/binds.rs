//! Directories of the host that are in a sandbox at the same path.

use std::path::{Path, PathBuf};

use vestal_sandbox::{Command, Error, FilesOnRemoval, Overrides, Reach, Sandbox, TaskName};

use crate::support::World;

/// No directory of the world is in a container of its own accord.
const NOTHING_ELSE: &str = "terminal.docker_volumes=[]";

fn task() -> TaskName {
    "kanban-t_1".parse().unwrap()
}

async fn run(sandbox: &Sandbox, text: &str) -> String {
    sandbox.run(Command::shell(text)).await.unwrap().stdout.text()
}

/// Makes a directory of the user's that tells its name, and that whoever runs
/// commands may write to.
fn project(world: &World, name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = world.scratch(name);
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::write(dir.join("name"), format!("{name}\n")).unwrap();
    dir
}

async fn with(world: &World, binds: &[&Path], cwd: &Path) -> Result<Sandbox, Error> {
    let asked = Overrides {
        binds: binds.iter().map(|bind| bind.to_path_buf()).collect(),
        cwd: Some(cwd.to_owned()),
        ..Overrides::default()
    };
    world.engine_with(&[NOTHING_ELSE]).sandbox_with(&task(), &asked).await
}

pub(crate) async fn directories_of_the_host_are_at_the_same_path(world: &World) {
    let (tree, repository) = (project(world, "a tree"), project(world, "repository"));
    let sandbox = with(world, &[&tree, &repository], &tree).await.unwrap();
    let text = format!("pwd; cat name '{}/name'; echo made > made", repository.display());
    assert_eq!(run(&sandbox, &text).await, format!("{}\na tree\nrepository\n", tree.display()));
    assert_eq!(std::fs::read(tree.join("made")).unwrap(), b"made\n");
    // So they are for files, and for whoever asks for nothing later.
    let files = sandbox.files(None).await.unwrap();
    assert_eq!(files.read("name", 100).await.unwrap(), b"a tree\n");
    let later = world.engine_with(&[NOTHING_ELSE]).sandbox(&task()).await.unwrap();
    assert_eq!(later.instance().await, sandbox.instance().await);
    assert_eq!(run(&later, "cat name").await, "a tree\n");
    // Nobody else's sandbox has them.
    if world.is_contained() {
        let other = world.engine_with(&[NOTHING_ELSE]).sandbox(&TaskName::default_task()).await;
        let look = format!("ls '{}' 2>/dev/null || echo none", tree.display());
        assert_eq!(run(&other.unwrap(), &look).await, "none\n");
        assert!(matches!(sandbox.reach().await, Reach::Mounts(openings) if openings.len() == 2));
    }
    // They are the user's, whatever becomes of the sandbox.
    drop((sandbox, later));
    world.engine().remove(&task(), FilesOnRemoval::Remove).await.unwrap();
    assert_eq!(std::fs::read(tree.join("made")).unwrap(), b"made\n");
}

pub(crate) async fn a_directory_that_cannot_be_there_is_refused_by_name(world: &World) {
    let missing = world.scratch("missing");
    for wrong in [&*missing, Path::new("relative/dir"), Path::new("/etc/passwd")] {
        let refused = with(world, &[wrong], Path::new("/")).await.unwrap_err();
        assert!(matches!(&refused, Error::Bind { path, .. } if path == wrong), "{refused}");
    }
    assert_eq!(world.engine().list().await.unwrap(), []);
}

pub(crate) async fn a_sandbox_with_other_directories_is_made_anew(world: &World) {
    let (a, b) = (project(world, "a"), project(world, "b"));
    let first = with(world, &[&a], &a).await.unwrap();
    run(&first, "echo kept > ~/kept").await;
    let job = first.spawn(Command::shell("sleep 1000")).await.unwrap();
    let refused = with(world, &[&b], &b).await.unwrap_err();
    assert!(matches!(refused, Error::Tightened { .. }), "{refused}");
    first.kill(&job.id).await.unwrap();

    let was_in = first.instance().await;
    let second = with(world, &[&b], &b).await.unwrap();
    assert_eq!(second.instance().await == was_in, world.keeps_instances());
    let look = format!("cat name ~/kept; ls '{}' 2>/dev/null || echo none", a.display());
    assert_eq!(run(&second, &look).await, "b\nkept\nnone\n");
    assert_eq!(world.own_containers().len(), 1);
    let more = with(world, &[&a, &b], &b).await.unwrap();
    assert_eq!(run(&more, &format!("cat name '{}/name'", a.display())).await, "b\na\n");
}

pub(crate) async fn places_of_the_system_are_not_covered(world: &World) {
    for place in ["/usr", "/proc/self"] {
        let refused = with(world, &[Path::new(place)], Path::new("/")).await.unwrap_err();
        assert!(matches!(refused, Error::Backend { .. }), "{refused}");
        assert!(refused.to_string().contains(place), "{refused}");
    }
    assert_eq!(world.own_containers().len(), 0);
}
