//! A directory of this machine that is copied to a sandbox elsewhere, and back.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use vestal_sandbox::{
    Command, Engine, Error, FAILPOINTS, Overrides, Sandbox, SyncConflict, SyncMode, SyncReport,
    TaskName,
};

use super::crashes::crash;
use crate::support::BackendFixture;

/// A project here, and its copy in a sandbox.
struct Project {
    here: PathBuf,
    there: PathBuf,
    task: TaskName,
}

impl Project {
    /// Makes a project with a file, and its sandbox.
    async fn new(fixture: &BackendFixture) -> (Self, Sandbox) {
        let here = fixture.scratch("project");
        std::fs::create_dir(&here).unwrap();
        std::fs::write(here.join("name"), "project\n").unwrap();
        let engine = fixture.engine();
        let task = engine.task_with_mount(&TaskName::default_task(), &here).unwrap();
        let asked = Overrides { mount: Some(here.clone()), ..Overrides::default() };
        let sandbox = engine.sandbox_with(&TaskName::default_task(), &asked).await.unwrap();
        let there = fixture.files_dir(task.as_str()).join("workspace");
        (Self { here, there, task }, sandbox)
    }

    /// Returns the sandbox as another process has it.
    async fn again(&self, engine: &Engine) -> Sandbox {
        engine.sandbox(&self.task).await.unwrap()
    }

    fn assert_same(&self) {
        assert_eq!(tree(&self.here), tree(&self.there));
    }
}

/// Returns all of a tree: kinds, contents, bits to execute, targets.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let what = if meta.is_dir() {
                open.push(path.clone());
                "directory".to_owned()
            } else if meta.is_symlink() {
                format!("link to {}", std::fs::read_link(&path).unwrap().display())
            } else {
                let content = std::fs::read(&path).unwrap();
                let bit = meta.permissions().mode() & 0o100;
                format!("{bit:o} {} {:?}", meta.mtime(), String::from_utf8_lossy(&content))
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), what);
        }
    }
    found
}

async fn run(sandbox: &Sandbox, text: &str) -> String {
    sandbox.run(Command::shell(text)).await.unwrap().stdout.text()
}

async fn synced(sandbox: &Sandbox) -> SyncReport {
    sandbox.sync(SyncMode::Run).await.unwrap().unwrap()
}

pub(crate) async fn what_changes_on_one_side_is_on_the_other_before_and_after_a_command(
    fixture: &BackendFixture,
) {
    let (project, sandbox) = Project::new(fixture).await;
    let here = |name: &str| project.here.join(name);
    std::fs::create_dir_all(here("a/empty")).unwrap();
    std::fs::write(here("a/tool"), "#!/bin/sh\necho runs\n").unwrap();
    std::fs::set_permissions(here("a/tool"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(here("private"), "secret").unwrap();
    std::fs::set_permissions(here("private"), std::fs::Permissions::from_mode(0o600)).unwrap();
    symlink("a/tool", here("link")).unwrap();
    symlink("/nowhere", here("out")).unwrap();
    let odd = [b"\xff\n ".as_slice(), "é".as_bytes(), b".."].concat();
    std::fs::write(project.here.join(OsStr::from_bytes(&odd)), "odd").unwrap();
    std::fs::write(here("large"), vec![b'x'; 9 << 20]).unwrap();
    assert_eq!(
        run(&sandbox, "pwd; cat name; ./link").await.lines().skip(1).collect::<Vec<_>>(),
        ["project", "runs"]
    );
    project.assert_same();
    let private = std::fs::metadata(project.there.join("private")).unwrap();
    assert_eq!(private.permissions().mode() & 0o777, 0o600);

    let text = "rm name link; rm -r a; mkdir b; echo made > b/made; chmod +x private; \
                ln -s made b/link; echo more >> large";
    run(&sandbox, text).await;
    project.assert_same();
    assert_eq!(std::fs::read(here("b/made")).unwrap(), b"made\n");
    assert!(!here("a").exists() && !here("name").exists());
    // And one becomes the other.
    run(&sandbox, "rm -r b; echo file > b; rm private; mkdir private; touch private/in").await;
    project.assert_same();
    std::fs::remove_file(here("b")).unwrap();
    std::fs::create_dir(here("b")).unwrap();
    assert_eq!(run(&sandbox, "[ -d b ] && echo directory").await, "directory\n");
    project.assert_same();
    // What a background job leaves is here when somebody hears of its end.
    let job = sandbox.spawn(Command::shell("echo job > by-job")).await.unwrap();
    sandbox.wait(&job.id, None).await.unwrap();
    assert_eq!(std::fs::read(here("by-job")).unwrap(), b"job\n");
    assert_eq!(sandbox.take_sync_notes(), [""; 0]);
}

pub(crate) async fn a_second_start_with_nothing_changed_moves_no_file(fixture: &BackendFixture) {
    let (project, sandbox) = Project::new(fixture).await;
    for number in 0..50 {
        std::fs::write(project.here.join(format!("{number}")), "x").unwrap();
    }
    run(&sandbox, "true").await;
    drop(sandbox);
    let inodes = |root: &Path| -> Vec<u64> {
        let read = std::fs::read_dir(root).unwrap();
        let mut all: Vec<u64> =
            read.map(|entry| entry.unwrap().metadata().unwrap().ino()).collect();
        all.sort_unstable();
        all
    };
    let before = (inodes(&project.here), inodes(&project.there));
    let other = project.again(&fixture.engine()).await;
    assert_eq!(synced(&other).await, SyncReport::default());
    assert_eq!((inodes(&project.here), inodes(&project.there)), before);
    // And of what changed only that is moved.
    std::fs::write(project.here.join("7"), "changed").unwrap();
    let report = synced(&other).await;
    let expected =
        SyncReport { changes: 1, copied_files: 1, copied_bytes: 7, ..SyncReport::default() };
    assert_eq!(report, expected);
}

pub(crate) async fn a_file_changed_on_both_sides_is_kept_twice_and_reported(
    fixture: &BackendFixture,
) {
    let (project, sandbox) = Project::new(fixture).await;
    run(&sandbox, "echo gone > gone; echo back > back").await;
    // Behind the back of every command.
    std::fs::write(project.there.join("name"), "theirs\n").unwrap();
    std::fs::write(project.here.join("name"), "mine\n").unwrap();
    std::fs::remove_file(project.here.join("back")).unwrap();
    std::fs::write(project.there.join("back"), "changed\n").unwrap();
    let dry = sandbox.sync(SyncMode::DryRun).await.unwrap().unwrap();
    assert!(dry.changes > 0 && !dry.planned.is_empty(), "{dry:?}");
    assert_eq!(std::fs::read(project.there.join("name")).unwrap(), b"theirs\n");

    assert_eq!(run(&sandbox, "cat name").await, "mine\n");
    let notes = sandbox.take_sync_notes();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("name was changed here and in the sandbox"), "{notes:?}");
    assert!(notes[1].contains("back was deleted on one side"), "{notes:?}");
    let all = tree(&project.here);
    let kept: Vec<_> =
        all.keys().filter(|path| path.to_string_lossy().starts_with("name.conflict-")).collect();
    assert_eq!(kept.len(), 1, "{all:?}");
    assert_eq!(std::fs::read(project.here.join(kept[0])).unwrap(), b"theirs\n");
    assert_eq!(std::fs::read(project.here.join("back")).unwrap(), b"changed\n");
    project.assert_same();
    assert_eq!(synced(&sandbox).await.conflicts, Vec::<SyncConflict>::new(), "said once");
}

pub(crate) async fn nothing_outside_is_reached_by_links_of_either_side(fixture: &BackendFixture) {
    let (project, sandbox) = Project::new(fixture).await;
    let outside = fixture.scratch("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("kept"), "kept").unwrap();
    run(&sandbox, "mkdir d; echo x > d/kept").await;
    // A directory here was replaced by a link, and what is behind it changes there.
    std::fs::remove_dir_all(project.here.join("d")).unwrap();
    symlink(&outside, project.here.join("d")).unwrap();
    std::fs::write(project.there.join("d/kept"), "overwritten").unwrap();
    std::fs::write(project.there.join("d/new"), "new").unwrap();
    // The sandbox makes links that lead out of the project here.
    symlink(&outside, project.there.join("absolute")).unwrap();
    symlink("../outside/kept", project.there.join("relative")).unwrap();
    symlink("name", project.there.join("inside")).unwrap();
    let report = synced(&sandbox).await;
    let refused: Vec<PathBuf> = vec!["absolute".into(), "relative".into()];
    assert_eq!(report.refused_links, refused);
    assert_eq!(std::fs::read(outside.join("kept")).unwrap(), b"kept");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert!(project.here.join("inside").is_symlink());
    for name in ["absolute", "relative"] {
        assert!(project.here.join(name).symlink_metadata().is_err(), "{name}");
    }
    // The directory that was changed there is kept under another name.
    let kept = &report.conflicts[0].kept_as;
    assert_eq!(std::fs::read(project.here.join(kept).join("new")).unwrap(), b"new");
    // The project itself is no way out either.
    drop(sandbox);
    std::fs::rename(&project.here, fixture.scratch("moved")).unwrap();
    symlink(fixture.home(), &project.here).unwrap();
    let engine = fixture.engine();
    let refused = match engine.sandbox(&project.task).await {
        Ok(sandbox) => sandbox.sync(SyncMode::Run).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(refused, Error::Backend { .. }), "{refused:?}");
}

pub(crate) async fn a_side_that_lost_everything_has_deleted_nothing(fixture: &BackendFixture) {
    let (project, sandbox) = Project::new(fixture).await;
    run(&sandbox, "echo made > made").await;
    let was = tree(&project.here);
    for entry in std::fs::read_dir(&project.there).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(run(&sandbox, "cat made").await, "made\n");
    assert_eq!(tree(&project.here), was);
    let notes = sandbox.take_sync_notes();
    assert!(notes[0].contains("the sandbox's copy was empty"), "{notes:?}");
    // Nor has a directory that took the name of the one agreed about.
    std::fs::rename(&project.here, fixture.scratch("aside")).unwrap();
    std::fs::create_dir(&project.here).unwrap();
    std::fs::write(project.here.join("other"), "other\n").unwrap();
    let (task, engine) = (&project.task, fixture.engine());
    let sandbox = engine.sandbox(task).await.unwrap();
    assert_eq!(run(&sandbox, "cat made other").await, "made\nother\n");
    project.assert_same();
    let notes = sandbox.take_sync_notes();
    assert!(notes[0].contains("what the sandbox had is here"), "{notes:?}");
    // What one side deletes goes on the other, by name.
    std::fs::remove_file(project.here.join("other")).unwrap();
    std::fs::remove_file(project.there.join("made")).unwrap();
    let report = synced(&sandbox).await;
    let expected = SyncReport {
        changes: 2,
        deleted_here: vec!["made".into()],
        deleted_there: vec!["other".into()],
        ..SyncReport::default()
    };
    assert_eq!(report, expected);
}

pub(crate) async fn what_is_not_here_yet_is_brought_back_before_the_copy_is_removed(
    fixture: &BackendFixture,
) {
    use vestal_sandbox::FilesOnRemoval;
    let (project, sandbox) = Project::new(fixture).await;
    run(&sandbox, "echo known > known").await;
    // Nobody has heard of it yet.
    std::fs::write(project.there.join("late"), "late").unwrap();
    drop(sandbox);
    let engine = fixture.engine();
    let status = engine.sync_status(&project.task).unwrap().unwrap();
    assert_eq!((&status.directory, status.conflicts.len()), (&project.here, 0));
    assert!(status.synced_at.is_some());
    engine.remove(&project.task, FilesOnRemoval::Remove).await.unwrap();
    assert_eq!(std::fs::read(project.here.join("late")).unwrap(), b"late");
    assert!(!project.there.exists());
    // What somebody has put away here does not come back for it.
    let asked = Overrides { mount: Some(project.here.clone()), ..Overrides::default() };
    let sandbox = engine.sandbox_with(&TaskName::default_task(), &asked).await.unwrap();
    run(&sandbox, "true").await;
    std::fs::rename(&project.here, fixture.scratch("away")).unwrap();
    std::fs::create_dir(&project.here).unwrap();
    std::fs::write(project.here.join("new"), "").unwrap();
    drop(sandbox);
    engine.remove(&project.task, FilesOnRemoval::Remove).await.unwrap();
    assert_eq!(tree(&project.here).len(), 1);
}

pub(crate) async fn what_cannot_be_brought_back_is_not_removed(fixture: &BackendFixture) {
    use vestal_sandbox::{FilesOnRemoval, SyncError};
    let (project, sandbox) = Project::new(fixture).await;
    run(&sandbox, "true").await;
    // Nothing can take the place of what is no file, directory or link.
    let in_its_way = std::os::unix::net::UnixListener::bind(project.here.join("late")).unwrap();
    std::fs::write(project.there.join("late"), "late").unwrap();
    // That it has been said before is no reason to lose it.
    assert_eq!(synced(&sandbox).await.failed.len(), 1);
    drop(sandbox);
    let engine = fixture.engine();
    let remove = async || engine.remove(&project.task, FilesOnRemoval::Remove).await;
    let refused = remove().await.unwrap_err();
    assert!(matches!(refused, Error::Sync(SyncError::NotBroughtBack { .. })), "{refused:?}");
    assert!(refused.to_string().contains("late"), "{refused}");
    assert_eq!(std::fs::read(project.there.join("late")).unwrap(), b"late");
    // The rest is here, and nothing else is: not even in a directory that was emptied.
    drop(in_its_way);
    for entry in std::fs::read_dir(&project.here).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    remove().await.unwrap();
    assert_eq!(std::fs::read(project.here.join("late")).unwrap(), b"late");
    assert_eq!(std::fs::read(project.here.join("name")).unwrap(), b"project\n");
}

pub(crate) async fn what_is_as_it_was_again_after_a_crash_is_not_deleted(fixture: &BackendFixture) {
    let (project, sandbox) = Project::new(fixture).await;
    run(&sandbox, "true").await;
    drop(sandbox);
    for point in FAILPOINTS.iter().filter(|name| name.starts_with("sync.")) {
        std::fs::remove_file(project.here.join("name")).unwrap();
        crash(fixture, &["run", project.task.as_str(), "true"], point).await;
        // As `git stash pop` does.
        std::fs::write(project.here.join("name"), "project\n").unwrap();
        let sandbox = project.again(&fixture.engine()).await;
        assert_eq!(run(&sandbox, "cat name").await, "project\n", "{point}");
        let here = std::fs::read(project.here.join("name")).unwrap();
        assert_eq!(here, b"project\n", "{point}");
    }
}

pub(crate) async fn what_is_to_be_left_out_stays_where_it_is(fixture: &BackendFixture) {
    let (project, sandbox) = Project::new(fixture).await;
    std::fs::create_dir_all(project.here.join("web/node_modules/x")).unwrap();
    std::fs::write(project.here.join("web/node_modules/x/big"), "big").unwrap();
    std::fs::write(project.here.join(".vestalignore"), "node_modules/\n*.o\n").unwrap();
    run(&sandbox, "[ -e web/node_modules ] && exit 1; mkdir web/node_modules; touch web/there.o")
        .await;
    assert!(!project.here.join("web/there.o").exists());
    // A directory goes without what takes no part in it.
    std::fs::remove_dir_all(project.here.join("web")).unwrap();
    let report = synced(&sandbox).await;
    assert!(report.failed.is_empty(), "{report:?}");
    assert!(project.there.join("web/node_modules").exists());
    assert_eq!(synced(&sandbox).await.changes, 0);
    // What is no longer left out has not been deleted by anybody.
    std::fs::remove_file(project.here.join(".vestalignore")).unwrap();
    synced(&sandbox).await;
    project.assert_same();
    assert!(project.here.join("web/there.o").exists());
}

pub(crate) async fn a_sync_may_die_at_any_step(fixture: &BackendFixture) {
    let (project, sandbox) = Project::new(fixture).await;
    drop(sandbox);
    let points: Vec<_> = FAILPOINTS.iter().filter(|name| name.starts_with("sync.")).collect();
    assert_eq!(points.len(), 5);
    for (round, point) in points.into_iter().enumerate() {
        for (root, other) in [(&project.here, "here"), (&project.there, "there")] {
            std::fs::write(root.join(format!("{round}-{other}")), format!("{round}")).unwrap();
            std::fs::write(root.join("both"), format!("{other} {round}")).unwrap();
        }
        crash(fixture, &["run", project.task.as_str(), "true"], point).await;
        let sandbox = project.again(&fixture.engine()).await;
        run(&sandbox, "true").await;
        project.assert_same();
        let all = tree(&project.here);
        for version in [format!("here {round}"), format!("there {round}"), format!("{round}")] {
            let is_there = all.values().any(|what| what.contains(&format!("{version:?}")));
            assert!(is_there, "{point}: {version} is lost: {all:?}");
        }
        assert_eq!(
            all.keys().filter(|path| path.to_string_lossy().starts_with(".vestal")).count(),
            0
        );
    }
}

pub(crate) async fn what_is_shown_is_a_copy_that_is_put_right(fixture: &BackendFixture) {
    let source = fixture.scratch("skill");
    std::fs::create_dir_all(source.join("scripts")).unwrap();
    std::fs::write(source.join("SKILL.md"), "one").unwrap();
    std::fs::write(source.join(".hidden"), "hidden").unwrap();
    std::fs::write(source.join("scripts/run"), "#!/bin/sh\necho ran\n").unwrap();
    let run_bits = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(source.join("scripts/run"), run_bits).unwrap();
    let sandbox = fixture.sandbox().await;
    let shown = sandbox.publish("skills/deploy", &source).await.unwrap();
    let text = format!("cd {}; cat SKILL.md; scripts/run; ls -A | wc -l", shown.display());
    assert_eq!(run(&sandbox, &text).await, "oneran\n2\n");
    // What the sandbox does to it is undone, and never comes here.
    let spoil = format!("cd {}; echo evil > SKILL.md; echo evil > scripts/run", shown.display());
    run(&sandbox, &spoil).await;
    std::fs::write(source.join("SKILL.md"), "two").unwrap();
    std::fs::write(source.join("more"), "").unwrap();
    assert_eq!(fixture.sandbox().await.publish("skills/deploy", &source).await.unwrap(), shown);
    assert_eq!(run(&sandbox, &text).await, "tworan\n3\n");
    std::fs::remove_file(source.join("more")).unwrap();
    sandbox.publish("skills/deploy", &source).await.unwrap();
    assert_eq!(run(&sandbox, &text).await, "tworan\n2\n");
    assert_eq!(tree(&source).len(), 4);
}

pub(crate) async fn processes_that_sync_at_once_agree(fixture: &BackendFixture) {
    let (project, sandbox) = Project::new(fixture).await;
    run(&sandbox, "true").await;
    let others = ["a", "b", "c"].map(|name| {
        std::fs::write(project.here.join(format!("{name}-here")), name).unwrap();
        fixture.worker(&[
            "run",
            project.task.as_str(),
            &format!("cat *-here; echo {name} > {name}-there"),
        ])
    });
    for other in others {
        assert_eq!(other.done().await["stdout"], "abc");
    }
    for name in ["a", "b", "c"] {
        let there = std::fs::read_to_string(project.here.join(format!("{name}-there"))).unwrap();
        assert_eq!(there, format!("{name}\n"));
    }
    project.assert_same();
    assert_eq!(synced(&sandbox).await.conflicts, Vec::<SyncConflict>::new());
}

pub(crate) async fn a_sync_that_loses_its_connection_is_finished_by_the_next(
    fixture: &BackendFixture,
) {
    let (project, sandbox) = Project::new(fixture).await;
    run(&sandbox, "true").await;
    for round in 0..10 {
        std::fs::write(project.here.join(format!("large-{round}")), vec![round; 6 << 20]).unwrap();
        let syncing = sandbox.sync(SyncMode::Run);
        let cutting = async {
            for _ in 0..round * 4 {
                tokio::task::yield_now().await;
            }
            fixture.machine().cut();
        };
        // Whether it was quicker than the cut does not matter.
        let (_was_quicker, ()) = tokio::join!(syncing, cutting);
    }
    run(&sandbox, "true").await;
    project.assert_same();
    let left = tree(&project.there);
    assert!(!left.keys().any(|path| path.to_string_lossy().starts_with(".vestal")), "{left:?}");
}
