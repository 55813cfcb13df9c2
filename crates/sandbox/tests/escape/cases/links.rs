//! Links that are planted in a sandbox for the host to follow.

use std::path::{Path, PathBuf};

use vestal_sandbox::files::{Depth, WriteOptions};
use vestal_sandbox::{FilesOnRemoval, Rebuild, TaskName, WhileBusy};

use crate::cell::{Cell, run_in};

/// A directory of the host that must stay as it is.
struct Victim {
    dir: PathBuf,
}

impl Victim {
    fn new(cell: &Cell) -> Self {
        let dir = cell.fixture.scratch("victim");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("file"), "as it was").unwrap();
        Self { dir }
    }

    fn path(&self) -> std::path::Display<'_> {
        self.dir.display()
    }

    fn assert_untouched(&self) {
        assert_eq!(std::fs::read(self.dir.join("file")).unwrap(), b"as it was");
        let names: Vec<_> =
            self.dir.read_dir().unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["file"]);
    }
}

async fn stop(cell: &Cell) {
    cell.engine(&[]).stop(&TaskName::default_task()).await.unwrap();
}

/// Returns every file below a directory whose content shows the victim.
fn copies(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in dir.read_dir().into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(copies(&entry.path()));
        } else if kind.is_file() && std::fs::read(entry.path()).unwrap_or_default() == b"as it was"
        {
            found.push(entry.path());
        }
    }
    found
}

pub(crate) async fn links_in_the_files_of_a_sandbox_are_not_followed_at_its_start(cell: &Cell) {
    let victim = Victim::new(cell);
    // Wherever something of the host's is put in at a start, as far as it can be removed.
    let places = "/etc /usr /opt /proc /dev /tmp /run /var /var/tmp /var/lib /root /workspace \
                  /etc/resolv.conf /etc/hosts /etc/passwd /.vestal /.vestal/boot /.vestal/io /.vestal/state";
    let text = format!(
        "for p in {places}; do mv $p $p.old || rm -f $p; ln -s {} $p; done; ln -s {0} /workspace/x; ln -s {0} ~/.profile; \
         ln -s {0}/file /workspace/y",
        victim.path()
    );
    cell.run(&format!("( {text} ) 2> /dev/null")).await;
    stop(cell).await;
    assert_eq!(cell.run("echo runs").await, "runs\n");
    victim.assert_untouched();
    // Nor when a file is put there: the link leads to where it does inside.
    let sandbox = cell.engine(&[]).sandbox(&TaskName::default_task()).await.unwrap();
    let files = sandbox.files(None).await.unwrap();
    files.write("/workspace/y", b"changed", WriteOptions::default()).await.ok();
    files.write("/workspace/x/made", b"made", WriteOptions::default()).await.ok();
    victim.assert_untouched();
    files.delete("/workspace/y", Depth::One).await.unwrap();
    // A link that stays is the sandbox's own, and leads nowhere there.
    assert_eq!(
        cell.run("cat /workspace/y /workspace/x/file ~/.profile/file 2> /dev/null").await,
        ""
    );
}

pub(crate) async fn links_where_something_is_to_be_mounted_are_not_followed(cell: &Cell) {
    let victim = Victim::new(cell);
    let source = cell.fixture.scratch("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("content"), "mounted\n").unwrap();
    let text = format!("ln -s {} /data; ln -s / /up; ln -s {0} /workspace/data", victim.path());
    cell.run(&text).await;
    stop(cell).await;
    let mounting = |targets: &[&str]| {
        let volume = |target: &&str| format!("\"{}:{target}\"", source.display());
        let volumes: Vec<String> = targets.iter().map(volume).collect();
        cell.engine(&[&format!("terminal.docker_volumes=[{}]", volumes.join(","))])
    };
    // In a directory that may be the user's nothing is removed to make room.
    let engine = mounting(&["/workspace/data/made"]);
    let refused = engine.sandbox(&TaskName::default_task()).await.unwrap_err();
    assert!(refused.to_string().contains("/workspace/data/made"), "{refused}");
    victim.assert_untouched();
    // In the sandbox's own system it is.
    let engine = mounting(&["/data/made", "/up/made"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let text = "cat /data/made/content /up/made/content";
    assert_eq!(run_in(&sandbox, text).await, "mounted\nmounted\n");
    victim.assert_untouched();
}

pub(crate) async fn links_in_the_guests_directories_are_not_followed(cell: &Cell) {
    let victim = Victim::new(cell);
    let task = TaskName::default_task();
    let plant = |dir: &str, names: &str, make: &str| {
        format!("cd {dir} && for f in {names}; do rm -rf $f; {make} $f; done")
    };
    let link = format!("ln -s {}/file", victim.path());
    // Nothing else in their place holds anybody up.
    let names = "guest.sock guest.json owner.json guest.json.new";
    for make in [&*link, "mkfifo", "truncate -s 1T", "mkdir"] {
        cell.run(&plant("/.vestal/io", names, make)).await;
        // The next process ends what does not answer, and starts it.
        let sandbox = cell.engine(&[]).sandbox(&task).await.unwrap();
        assert_eq!(run_in(&sandbox, "echo runs").await, "runs\n", "{make}");
        victim.assert_untouched();
        assert_eq!(cell.fixture.guests().len(), 1);
    }
    // A sandbox that has spoiled its own journal does not start again until it is
    // rebuilt; it still reaches nothing outside.
    let spoil = "rm journal; echo spoilt for good > journal";
    cell.run(&format!("{}; {spoil}", plant("/.vestal/state", "*", &link))).await;
    stop(cell).await;
    let error = cell.engine(&[]).sandbox(&task).await.unwrap_err();
    assert!(error.to_string().contains("is not a journal"), "{error}");
    cell.engine(&[]).rebuild(&task, &Rebuild::default(), WhileBusy::Stop).await.unwrap();
    let kept = cell.fixture.home().join("sandboxes/default/unusable-state");
    assert!(kept.is_dir(), "what it was is kept aside");
    let sandbox = cell.engine(&[]).sandbox(&task).await.unwrap();
    assert_eq!(run_in(&sandbox, "echo runs").await, "runs\n");
    drop(sandbox);
    victim.assert_untouched();
}

pub(crate) async fn links_are_removed_and_not_what_they_name(cell: &Cell) {
    let victim = Victim::new(cell);
    let text = format!(
        "cd; ln -s {} x; ln -s {0} /workspace/x; ln -s {0} /x; mkdir -p /workspace/d; ln -s {0} /workspace/d/x",
        victim.path()
    );
    cell.run(&text).await;
    let removed =
        cell.engine(&[]).remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    assert_eq!(removed.instances, 1);
    victim.assert_untouched();
}

pub(crate) async fn links_are_copied_and_not_what_they_name(cell: &Cell) {
    let victim = Victim::new(cell);
    let text = format!(
        "cd; ln -s {} x; ln -s {0}/file /workspace/y; ln -s {0} /x; ln -s {0}/file /y",
        victim.path()
    );
    cell.run(&text).await;
    let (task, name) = (TaskName::default_task(), "before".parse().unwrap());
    let engine = cell.engine(&[]);
    engine.snapshot(&task, &name, None, WhileBusy::Stop).await.unwrap();
    assert_eq!(copies(&cell.fixture.home()), Vec::<PathBuf>::new());
    // What is in the way of a restore leads nowhere either.
    engine.restore(&task, &name, WhileBusy::Stop).await.unwrap();
    assert_eq!(run_in(&engine.sandbox(&task).await.unwrap(), "echo runs").await, "runs\n");
    let fork = "fork".parse().unwrap();
    engine.fork(&task, Some(&name), &fork, WhileBusy::Stop).await.unwrap();
    assert_eq!(copies(&cell.fixture.home()), Vec::<PathBuf>::new());
    victim.assert_untouched();
}
