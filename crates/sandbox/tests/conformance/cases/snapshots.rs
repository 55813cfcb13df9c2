//! Snapshots, forks, restores and rebuilds: copies that are whole, and of their
//! own.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex};

use vestal_sandbox::{
    CapturedOutput, Command, CopyError, Engine, EngineOptions, Error, FilesOnRemoval, Progress,
    ProgressSink, Rebuild, SnapshotName, SummaryState, TaskName, WhileBusy,
};

use crate::support::{BackendFixture, Kind, marker, processes_with, until};

pub(crate) fn task(name: &str) -> TaskName {
    name.parse().unwrap()
}

pub(crate) fn name(name: &str) -> SnapshotName {
    name.parse().unwrap()
}

/// Runs shell text in the session `main` of a task's sandbox; it must succeed.
pub(crate) async fn run(fixture: &BackendFixture, of: &str, text: &str) -> String {
    let sandbox = fixture.engine().sandbox(&task(of)).await.unwrap();
    let output = sandbox.run(Command::shell(text).session("main")).await.unwrap();
    succeeded(&output, text)
}

fn succeeded(output: &CapturedOutput, text: &str) -> String {
    let (stdout, stderr) = (output.stdout.text(), output.stderr.text());
    assert_eq!(output.exit.code, Some(0), "{text}: {stdout}{stderr}");
    stdout
}

/// Returns a directory of the system that commands can write to; nothing where
/// the system is only there to be read.
async fn system_dir(fixture: &BackendFixture, of: &str) -> Option<&'static str> {
    // What else a pod has goes with it.
    if *fixture.kind() == Kind::Kubernetes {
        return None;
    }
    let printed = run(fixture, of, "if [ -w /usr ]; then echo yes; else echo no; fi").await;
    (printed == "yes\n").then_some("/usr")
}

/// Returns the places a copy holds.
async fn places(fixture: &BackendFixture, of: &str) -> Vec<&'static str> {
    let system = system_dir(fixture, of).await;
    ["/workspace", "$HOME"].into_iter().chain(system).collect()
}

/// Makes what is in the places read `what`, as a file that is changed, one that
/// is only there now, and one that is gone.
pub(crate) async fn write(fixture: &BackendFixture, of: &str, what: &str) {
    for place in places(fixture, of).await {
        let text = format!(
            "cd {place} && mkdir -p vestal && cd vestal && rm -f only-* && \
             echo {what} > changed && echo {what} > only-{what}"
        );
        run(fixture, of, &text).await;
    }
}

/// Checks that the places read `what`.
pub(crate) async fn assert_reads(fixture: &BackendFixture, of: &str, what: &str) {
    for place in places(fixture, of).await {
        let printed = run(fixture, of, &format!("cd {place}/vestal && ls && cat changed")).await;
        assert_eq!(printed, format!("changed\nonly-{what}\n{what}\n"), "{place}");
    }
}

pub(crate) async fn a_restored_sandbox_is_what_it_was_in_every_place(fixture: &BackendFixture) {
    run(fixture, "default", "kept=session").await;
    write(fixture, "default", "before").await;
    let engine = fixture.engine();
    let (of, one) = (task("default"), name("one"));
    let made = engine.snapshot(&of, &one, Some("a note"), WhileBusy::Refuse).await.unwrap();
    assert_eq!((made.name.as_str(), made.note.as_deref()), ("one", Some("a note")));
    assert_eq!((made.backend.as_str(), made.system), (fixture.backend(), true));
    assert!(made.files >= 4 && made.bytes >= 14, "{made:?}");
    assert_eq!(engine.list().await.unwrap()[0].state, SummaryState::Stopped);
    assert_eq!(engine.list().await.unwrap()[0].snapshots, 1);
    write(fixture, "default", "after").await;
    assert_reads(fixture, "default", "after").await;
    let restored =
        fixture.engine().restore(&task("default"), &name("one"), WhileBusy::Refuse).await;
    assert_eq!(restored.unwrap().snapshot, made);
    assert_reads(fixture, "default", "before").await;
    assert_eq!(run(fixture, "default", "echo $kept").await, "session\n", "sessions go on");
    assert_eq!(fixture.engine().snapshots(None).await.unwrap(), [made], "it is still there");
    // It can be gone back to again, and what was restored is no part of it.
    write(fixture, "default", "again").await;
    fixture.engine().restore(&task("default"), &name("one"), WhileBusy::Refuse).await.unwrap();
    assert_reads(fixture, "default", "before").await;
    assert_eq!(fixture.guests().len(), 1);
    assert_eq!(fixture.own_containers().len(), 1, "the instances before are gone");
}

pub(crate) async fn what_a_system_lacked_it_lacks_again(fixture: &BackendFixture) {
    let Some(_) = system_dir(fixture, "default").await else {
        return;
    };
    // A file, and a directory where there is one, that come with the system and
    // not with the sandbox.
    let text = "rm /bin/expr && d=$(find /usr/share -mindepth 1 -maxdepth 1 -type d 2>/dev/null | \
                head -1) && if [ -n \"$d\" ]; then rm -r $d && mkdir $d && echo new > $d/new; fi && \
                echo $d";
    let dir = run(fixture, "default", text).await;
    let engine = fixture.engine();
    engine.snapshot(&task("default"), &name("one"), None, WhileBusy::Refuse).await.unwrap();
    run(fixture, "default", &format!("echo > /bin/expr; rm -rf {}", dir.trim())).await;
    engine.restore(&task("default"), &name("one"), WhileBusy::Refuse).await.unwrap();
    engine.fork(&task("default"), None, &task("other"), WhileBusy::Refuse).await.unwrap();
    let expected = if dir.trim().is_empty() { "" } else { "new\n" };
    for of in ["default", "other"] {
        let text = format!("[ ! -e /bin/expr ] && for d in {}; do ls -A $d; done", dir.trim());
        assert_eq!(run(fixture, of, &text).await, expected, "{of}");
    }
}

/// What is to be the same of a file and of its copy.
type Traits = (u32, u32, u32, i64, i64, u64, u64, Option<Vec<u8>>);

/// Returns the traits of all that is below a directory, by name.
fn traits(root: &Path) -> BTreeMap<String, Traits> {
    fn walk(root: &Path, dir: &Path, found: &mut BTreeMap<String, Traits>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let seen = std::fs::symlink_metadata(&path).unwrap();
            let (kind, dir) = (seen.file_type(), seen.is_dir());
            let links = if dir { 0 } else { seen.nlink() };
            let holes = if kind.is_file() { seen.blocks().min(64) } else { 0 };
            let mut value = [0; 64];
            let value = rustix::fs::lgetxattr(&path, "user.vestal-test", &mut value[..])
                .ok()
                .map(|length| value[..length].to_vec());
            let linked =
                std::fs::read_link(&path).ok().map(|to| to.into_os_string().into_encoded_bytes());
            let size = if dir { 0 } else { seen.len() };
            assert!(!kind.is_socket(), "{}", path.display());
            found.insert(
                path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(),
                (
                    seen.mode(),
                    seen.uid(),
                    seen.gid(),
                    seen.mtime(),
                    seen.mtime_nsec(),
                    links * 1000 + holes,
                    size,
                    value.or(linked),
                ),
            );
            if dir {
                walk(root, &path, found);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

pub(crate) async fn copies_keep_owners_modes_times_links_holes_and_attributes(
    fixture: &BackendFixture,
) {
    let text = "cd /workspace && mkdir -p dir/deep && echo text > dir/file && ln dir/file dir/hard && \
                ln -s ../file dir/deep/soft && ln -s /etc/shadow out && chmod 4711 dir/file && \
                chmod 1777 dir/deep && touch -d '2001-02-03 04:05:06' dir/hard && \
                dd if=/dev/zero of=holes bs=1 count=1 seek=8388607 2>/dev/null && \
                mkfifo pipe && echo odd > \"$(printf 'odd \\n name')\" && mkdir empty && \
                touch -d '2002-03-04 05:06:07' dir";
    run(fixture, "default", text).await;
    // Not everybody has other users in a sandbox.
    run(
        fixture,
        "default",
        "cd /workspace && echo x > other && { chown 12:34 other || true; } 2>/dev/null",
    )
    .await;
    let workspace = fixture.sandbox_dir("default").join("workspace");
    let tagged = rustix::fs::lsetxattr(
        workspace.join("dir/deep"),
        "user.vestal-test",
        b"kept",
        rustix::fs::XattrFlags::empty(),
    );
    // Files of a user of the container's are not this user's to tag.
    let tagged = tagged.is_ok();
    let before = traits(&workspace);
    assert_eq!(before["dir/deep"].7.is_some(), tagged);
    assert!(before["holes"].5 < 1000 + 64, "the hole is one");
    let engine = fixture.engine();
    let made =
        engine.snapshot(&task("default"), &name("one"), None, WhileBusy::Refuse).await.unwrap();
    assert_eq!(traits(&made.path.join("workspace")), before);
    engine.fork(&task("default"), None, &task("other"), WhileBusy::Refuse).await.unwrap();
    assert_eq!(traits(&fixture.sandbox_dir("other").join("workspace")), before);
    run(fixture, "default", "rm -rf /workspace/*").await;
    engine.restore(&task("default"), &name("one"), WhileBusy::Refuse).await.unwrap();
    assert_eq!(traits(&workspace), before);
    // They are the sandbox's own users' as before.
    let who = "cd /workspace && stat -c %u:%g dir/file other && echo more >> dir/file";
    assert_eq!(run(fixture, "default", who).await, run(fixture, "other", who).await);
}

pub(crate) async fn a_fork_is_independent_of_its_source(fixture: &BackendFixture) {
    run(fixture, "default", "kept=session").await;
    write(fixture, "default", "before").await;
    let engine = fixture.engine();
    let job = engine.sandbox(&task("default")).await.unwrap();
    job.run(Command::shell("true")).await.unwrap();
    let forked =
        engine.fork(&task("default"), None, &task("other"), WhileBusy::Refuse).await.unwrap();
    assert_eq!((forked.task.as_str(), forked.backend.as_str()), ("other", fixture.backend()));
    assert!(forked.files >= 4 && forked.bytes >= 14, "{forked:?}");
    assert_reads(fixture, "other", "before").await;
    assert_eq!(run(fixture, "other", "echo ${kept-none}").await, "none\n", "sessions are its own");
    let other = engine.sandbox(&task("other")).await.unwrap();
    let jobs = other.jobs(vestal_sandbox::job::JobFilter::All, 100).await.unwrap();
    assert!(!jobs.jobs.iter().any(|known| known.summary.contains("true")), "{jobs:?}");
    write(fixture, "other", "there").await;
    write(fixture, "default", "here").await;
    assert_reads(fixture, "other", "there").await;
    assert_reads(fixture, "default", "here").await;
    assert_eq!(run(fixture, "default", "echo $kept").await, "session\n");
    // The one does not need the other.
    engine.remove(&task("default"), FilesOnRemoval::Remove).await.unwrap();
    engine.stop(&task("other")).await.unwrap();
    assert_reads(fixture, "other", "there").await;
}

pub(crate) async fn a_fork_of_a_snapshot_is_what_that_was(fixture: &BackendFixture) {
    write(fixture, "default", "before").await;
    let engine = fixture.engine();
    engine.snapshot(&task("default"), &name("one"), None, WhileBusy::Refuse).await.unwrap();
    write(fixture, "default", "after").await;
    let guest = fixture.guests();
    let (of, one, to) = (task("default"), name("one"), task("other"));
    engine.fork(&of, Some(&one), &to, WhileBusy::Refuse).await.unwrap();
    assert!(guest.iter().all(|guest| fixture.guests().contains(guest)), "the source runs on");
    assert_reads(fixture, "other", "before").await;
    assert_reads(fixture, "default", "after").await;
    // The fork stays when the snapshot goes.
    engine.remove_snapshot(&task("default"), &name("one")).await.unwrap();
    assert_eq!(engine.snapshots(None).await.unwrap(), []);
    engine.stop(&task("other")).await.unwrap();
    assert_reads(fixture, "other", "before").await;
}

pub(crate) async fn a_busy_sandbox_is_not_copied_unless_it_may_be_stopped(
    fixture: &BackendFixture,
) {
    let (engine, of, mark) = (fixture.engine(), task("default"), marker());
    let sandbox = engine.sandbox(&of).await.unwrap();
    sandbox.spawn(Command::shell(format!("sleep {mark}"))).await.unwrap();
    until("the job runs", || async { !processes_with(&mark).is_empty() }).await;
    let refused = [
        engine.snapshot(&of, &name("one"), None, WhileBusy::Refuse).await.map(drop),
        engine.fork(&of, None, &task("other"), WhileBusy::Refuse).await.map(drop),
        engine.rebuild(&of, &Rebuild::default(), WhileBusy::Refuse).await.map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(
            matches!(&error, Error::Busy { reason, .. } if reason.contains("1 job")),
            "{error}"
        );
    }
    assert_ne!(processes_with(&mark), Vec::<u32>::new(), "the job runs on");
    assert!(!fixture.sandbox_dir("other").exists());
    assert!(!fixture.left_of("default").iter().any(|left| left == "snapshots"));
    engine.snapshot(&of, &name("one"), None, WhileBusy::Stop).await.unwrap();
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

pub(crate) async fn what_cannot_be_copied_is_refused_by_name(fixture: &BackendFixture) {
    let (engine, of) = (fixture.engine(), task("default"));
    let refusal = |result: Result<(), Error>| match result {
        Err(Error::Copy(error)) => {
            assert!(!error.advice().is_empty());
            error
        }
        other => panic!("not refused: {other:?}"),
    };
    let snapshot = |engine: Engine, named: &'static str| async move {
        engine.snapshot(&task("default"), &name(named), None, WhileBusy::Stop).await.map(drop)
    };
    let absent = snapshot(engine.clone(), "one").await.unwrap_err();
    assert!(matches!(absent, Error::NoSandbox { .. }), "{absent}");
    let fork = engine.fork(&of, None, &task("other"), WhileBusy::Stop).await.unwrap_err();
    assert!(matches!(fork, Error::NoSandbox { .. }), "{fork}");
    assert!(!fixture.sandbox_dir("other").exists() && !fixture.sandbox_dir("default").exists());
    run(fixture, "default", "true").await;
    snapshot(engine.clone(), "one").await.unwrap();
    let (t, n) = (|| "default".to_owned(), || "one".to_owned());
    assert_eq!(
        refusal(snapshot(engine.clone(), "one").await),
        CopyError::SnapshotExists { task: t(), name: n() }
    );
    let missing = CopyError::NoSnapshot { task: t(), name: "two".into() };
    let restored = engine.restore(&of, &name("two"), WhileBusy::Stop).await.map(drop);
    assert_eq!(refusal(restored), missing);
    assert_eq!(refusal(engine.remove_snapshot(&of, &name("two")).await.map(drop)), missing);
    let forked = engine.fork(&of, Some(&name("two")), &task("other"), WhileBusy::Stop).await;
    assert_eq!(refusal(forked.map(drop)), missing);
    assert!(!fixture.sandbox_dir("other").exists());
    let forked = engine.fork(&of, None, &of, WhileBusy::Stop).await.map(drop);
    assert_eq!(refusal(forked), CopyError::SandboxExists { task: t() });
    run(fixture, "other", "true").await;
    let forked = engine.fork(&of, None, &task("other"), WhileBusy::Stop).await.map(drop);
    assert_eq!(refusal(forked), CopyError::SandboxExists { task: "other".into() });
    let owned = fixture.engine_with(&["terminal.persist_across_processes=false"]);
    assert_eq!(refusal(snapshot(owned, "two").await), CopyError::Owned { task: t() });
    let fleeting = fixture.engine_with(&["terminal.container_persistent=false"]);
    let passing = fleeting.sandbox(&task("passing")).await.unwrap();
    passing.run(Command::shell("echo > /workspace/file")).await.unwrap();
    let refused = fleeting.snapshot(&task("passing"), &name("one"), None, WhileBusy::Stop).await;
    assert_eq!(refusal(refused.map(drop)), CopyError::InMemory { task: "passing".into() });
    let there = passing.run(Command::shell("[ -e /workspace/file ]")).await.unwrap();
    assert_eq!(there.exit.code, Some(0), "nothing was stopped");
}

pub(crate) async fn files_of_the_host_itself_are_not_copied(fixture: &BackendFixture) {
    let (engine, of) = (fixture.engine(), task("default"));
    run(fixture, "default", "true").await;
    let backend = || "local".to_owned();
    let expected = CopyError::HostsFiles { task: "default".into(), backend: backend() };
    let refused = [
        engine.snapshot(&of, &name("one"), None, WhileBusy::Stop).await.map(drop),
        engine.fork(&of, None, &task("other"), WhileBusy::Stop).await.map(drop),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Error::Copy(error)) if error == expected));
    }
    assert_eq!(fixture.guests().len(), 1, "nothing was stopped");
    assert!(!fixture.sandbox_dir("other").exists());
    run(fixture, "default", "kept=1").await;
    let rebuilt = engine.rebuild(&of, &Rebuild::default(), WhileBusy::Refuse).await.unwrap();
    assert_eq!((rebuilt.was, rebuilt.now, rebuilt.kept), (backend(), backend(), Vec::new()));
    assert_eq!(run(fixture, "default", "echo $kept").await, "1\n");
}

pub(crate) async fn snapshots_stay_with_the_files_and_go_with_them(fixture: &BackendFixture) {
    write(fixture, "default", "before").await;
    let (engine, of) = (fixture.engine(), task("default"));
    for named in ["one", "two"] {
        engine.snapshot(&of, &name(named), None, WhileBusy::Refuse).await.unwrap();
    }
    let names = |found: Vec<vestal_sandbox::Snapshot>| -> Vec<String> {
        found.into_iter().map(|found| found.name.to_string()).collect()
    };
    let removal = engine.remove(&of, FilesOnRemoval::Keep).await.unwrap();
    let dir = fixture.sandbox_dir("default");
    assert_eq!(removal.kept, ["workspace", "home", "snapshots"].map(|name| dir.join(name)));
    assert_eq!(removal.snapshots, []);
    assert_eq!(names(engine.snapshots(Some(&of)).await.unwrap()), ["one", "two"]);
    // Its own filesystem is gone, and comes back with a snapshot.
    engine.restore(&of, &name("two"), WhileBusy::Refuse).await.unwrap();
    assert_reads(fixture, "default", "before").await;
    engine.remove_snapshot(&of, &name("one")).await.unwrap();
    assert_eq!(names(engine.snapshots(None).await.unwrap()), ["two"]);
    let removal = engine.remove(&of, FilesOnRemoval::Remove).await.unwrap();
    assert_eq!((removal.kept, removal.snapshots), (Vec::new(), vec![name("two")]));
    assert!(!dir.exists());
    assert_eq!(engine.snapshots(None).await.unwrap(), []);
}

pub(crate) async fn a_rebuilt_sandbox_keeps_its_files_and_has_todays_settings(
    fixture: &BackendFixture,
) {
    run(fixture, "default", "kept=session").await;
    write(fixture, "default", "before").await;
    let changed = fixture.engine_with(&["terminal.docker_network=false"]);
    let of = task("default");
    let before = fixture.sandbox().await.generation().await;
    let rebuilt = changed.rebuild(&of, &Rebuild::default(), WhileBusy::Refuse).await.unwrap();
    assert_eq!((&*rebuilt.was, &*rebuilt.now), (fixture.backend(), fixture.backend()));
    let dir = fixture.sandbox_dir("default");
    assert_eq!(rebuilt.kept, ["workspace", "home"].map(|name| dir.join(name)));
    assert!(rebuilt.remarks.iter().any(|printed| printed.contains("own filesystem is new")));
    let sandbox = changed.sandbox(&of).await.unwrap();
    assert_eq!(sandbox.notices(), [], "the settings are those of now");
    assert_eq!(sandbox.generation().await, before + 1);
    let text = "cat /workspace/vestal/changed ~/vestal/changed; ls /usr/vestal 2>/dev/null; \
                echo $kept; ls /sys/class/net 2>/dev/null; cut -d: -f1 /proc/net/dev | tail -n +3";
    let output = sandbox.run(Command::shell(text).session("main")).await.unwrap();
    let printed = output.stdout.text();
    let words: Vec<&str> = printed.split_whitespace().filter(|word| *word != "lo").collect();
    assert_eq!(words, ["before", "before", "session"]);
    assert_eq!(fixture.own_containers().len(), 1, "the instance before is gone");
}

pub(crate) async fn a_sandbox_that_cannot_be_rebuilt_stays_as_it_is(fixture: &BackendFixture) {
    write(fixture, "default", "before").await;
    let of = task("default");
    let missing = fixture.scratch("nowhere");
    let volumes = format!("terminal.docker_volumes=[\"{}:/x\"]", missing.display());
    let broken = fixture.engine_with(&[&volumes]);
    broken.rebuild(&of, &Rebuild::default(), WhileBusy::Refuse).await.unwrap_err();
    assert_reads(fixture, "default", "before").await;
    let unknown = Rebuild { backend: Some("nonsense".into()), ..Rebuild::default() };
    let error = fixture.engine().rebuild(&of, &unknown, WhileBusy::Refuse).await.unwrap_err();
    assert!(matches!(error, Error::UnknownBackend { .. }), "{error}");
    assert_reads(fixture, "default", "before").await;
    assert_eq!(fixture.sandbox().await.generation().await, 1);
}

pub(crate) async fn a_sandbox_moves_to_the_host_itself_and_back(fixture: &BackendFixture) {
    write(fixture, "default", "before").await;
    let (engine, of) = (fixture.engine(), task("default"));
    let to = |backend: &str| Rebuild { backend: Some(backend.to_owned()), ..Rebuild::default() };
    let moved = engine.rebuild(&of, &to("local"), WhileBusy::Refuse).await.unwrap();
    assert_eq!((&*moved.was, &*moved.now), (fixture.backend(), "local"));
    assert!(moved.remarks.iter().any(|printed| printed.contains("on this machine itself")));
    assert_eq!(engine.list().await.unwrap()[0].backend, "local");
    run(fixture, "default", "[ ! -e /workspace/vestal ]").await;
    let back = engine.rebuild(&of, &to(fixture.backend()), WhileBusy::Refuse).await.unwrap();
    assert_eq!((&*back.was, &*back.now), ("local", fixture.backend()));
    let text = "cat /workspace/vestal/changed ~/vestal/changed && echo more > ~/vestal/changed";
    assert_eq!(run(fixture, "default", text).await, "before\nbefore\n");
    assert_eq!((fixture.guests().len(), fixture.own_containers().len()), (1, 1));
}

pub(crate) async fn a_sandbox_moves_between_backends_with_workspace_and_home(
    fixture: &BackendFixture,
) {
    write(fixture, "default", "before").await;
    run(fixture, "default", "cd ~ && mkdir -p mine && echo x > mine/file && chown -R 12:34 mine")
        .await;
    let (engine, of) = (fixture.engine(), task("default"));
    let to = |backend: &str| Rebuild { backend: Some(backend.to_owned()), ..Rebuild::default() };
    engine.snapshot(&of, &name("here"), None, WhileBusy::Refuse).await.unwrap();
    let moved = engine.rebuild(&of, &to("native"), WhileBusy::Refuse).await.unwrap();
    assert_eq!((&*moved.was, &*moved.now), (fixture.backend(), "native"));
    assert_eq!(fixture.own_containers().len(), 0, "the container is gone");
    let text = "cat /workspace/vestal/changed ~/vestal/changed && stat -c %u:%g ~/mine/file && \
                echo there > ~/vestal/changed && echo more >> ~/mine/file && id -u";
    assert_eq!(run(fixture, "default", text).await, "before\nbefore\n12:34\n0\n");
    // A copy of a container's system is none that this one could begin with.
    let refused = engine.restore(&of, &name("here"), WhileBusy::Refuse).await.unwrap_err();
    let expected = CopyError::OtherBackend {
        task: "default".into(),
        name: "here".into(),
        was: fixture.backend().into(),
        now: "native".into(),
    };
    assert!(matches!(refused, Error::Copy(error) if error == expected));
    let back = engine.rebuild(&of, &to(fixture.backend()), WhileBusy::Refuse).await.unwrap();
    assert_eq!((&*back.was, &*back.now), ("native", fixture.backend()));
    let text = "cat /workspace/vestal/changed ~/vestal/changed ~/mine/file";
    assert_eq!(run(fixture, "default", text).await, "before\nthere\nx\nmore\n");
    engine.restore(&of, &name("here"), WhileBusy::Refuse).await.unwrap();
    assert_reads(fixture, "default", "before").await;
}

/// Returns an engine that tells `progress` what takes long.
fn listening(fixture: &BackendFixture, progress: ProgressSink) -> Engine {
    let options = EngineOptions { progress, ..EngineOptions::default() };
    Engine::open_with(fixture.settings(&[], &[]), options).unwrap()
}

pub(crate) async fn processes_that_a_copy_ends_are_named_before(fixture: &BackendFixture) {
    let mark = marker();
    let text = format!("sleep {mark} & sleep {mark} & true");
    run(fixture, "default", &text).await;
    let reported = Arc::new(Mutex::new(Vec::new()));
    let (listener, seen) = (Arc::clone(&reported), format!("sleep\0{mark}"));
    // A forked shell is not yet the program that it will be.
    until("both run", || async { processes_with(&seen).len() == 2 }).await;
    let sink = ProgressSink::new(move |progress| {
        if let Progress::EndingProcesses { processes, commands } = progress {
            let alive = processes_with(&seen).len();
            listener.lock().unwrap().push((processes, commands, alive));
        }
    });
    let engine = listening(fixture, sink);
    engine.snapshot(&task("default"), &name("a"), None, WhileBusy::Refuse).await.unwrap();
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    assert_eq!(*reported.lock().unwrap(), [(2, vec![text], 2)]);
    // Where nothing was left there is nothing to say.
    reported.lock().unwrap().clear();
    run(fixture, "default", "true").await;
    engine.fork(&task("default"), None, &task("other"), WhileBusy::Refuse).await.unwrap();
    assert_eq!(*reported.lock().unwrap(), []);
}

pub(crate) async fn a_long_copy_tells_how_far_it_is(fixture: &BackendFixture) {
    let megabytes = 96;
    let text =
        format!("dd if=/dev/urandom of=/workspace/large bs=1M count={megabytes} 2>/dev/null");
    run(fixture, "default", &text).await;
    let reported = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&reported);
    let sink = ProgressSink::new(move |progress| listener.lock().unwrap().push(progress));
    let engine = listening(fixture, sink);
    let forked =
        engine.fork(&task("default"), None, &task("other"), WhileBusy::Refuse).await.unwrap();
    assert!(forked.bytes >= megabytes << 20, "{forked:?}");
    let reported = reported.lock().unwrap();
    let copying = reported.iter().filter_map(|reported| match reported {
        Progress::Copying { bytes, .. } => Some(*bytes),
        _ => None,
    });
    assert!(copying.max().is_some_and(|bytes| bytes >= megabytes << 20), "{reported:?}");
}
