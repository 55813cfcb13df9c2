//! `snapshot`, `snapshots`, `restore`, `fork`, `rebuild`: told on every backend
//! whose sandboxes have files of their own.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};
use vestal_testkit::processes::{processes_with, signal};
use vestal_testkit::wait_until;

use crate::shell::ShellTerminal;
use crate::support::ProgramFixture;

#[test]
fn native_goes_back_and_branches_off() {
    a_sandbox_goes_back_and_branches_off(&ProgramFixture::native());
}

#[test]
fn docker_goes_back_and_branches_off() {
    a_sandbox_goes_back_and_branches_off(&ProgramFixture::docker());
}

fn a_sandbox_goes_back_and_branches_off(fixture: &ProgramFixture) {
    let read = "cat file ~/h /etc/made";
    fixture
        .run("echo one > file; echo home > ~/h; echo system > /etc/made; export A=kept")
        .exits(0);
    let kept = fixture.vestal(["snapshot", "--name", "good", "--note", "all is well"]).exits(0);
    assert!(kept.text().starts_with("saved default as good ("), "{kept:?}");
    assert!(kept.stderr.contains("vestal restore default good"), "{kept:?}");

    // Life goes on, and goes wrong.
    assert_eq!(fixture.run("cat file; echo $A").exits(0).text(), "one\nkept\n");
    fixture.run("echo two > file; rm ~/h /etc/made; echo new > more").exits(0);

    // What there was lives in another place.
    let forked = fixture.vestal(["fork", "default", "then", "--from", "good"]).exits(0);
    assert!(forked.text().starts_with("forked default to then on "), "{forked:?}");
    assert_eq!(then(fixture, "then", read), "one\nhome\nsystem\n");
    assert_eq!(then(fixture, "then", "test ! -e more; echo $?"), "0\n");

    // So does what there is.
    fixture.vestal(["fork", "default", "now"]).exits(0);
    assert_eq!(
        then(fixture, "now", "cat file more; ls ~/h /etc/made 2>&1 | wc -l"),
        "two\nnew\n2\n"
    );
    then(fixture, "now", "echo three > file; rm more");
    assert_eq!(fixture.run("cat file more").exits(0).text(), "two\nnew\n");

    // And then it is as it was.
    let restored = fixture.vestal(["restore", "-y", "default", "good"]).exits(0);
    assert!(restored.text().starts_with("restored default to good of "), "{restored:?}");
    assert_eq!(fixture.run(read).exits(0).text(), "one\nhome\nsystem\n");
    fixture.run("test ! -e more").exits(0);
    assert_eq!(then(fixture, "now", "cat file"), "three\n");

    // The snapshot outlives its use, and the sandbox.
    fixture.run("rm file").exits(0);
    fixture.vestal(["restore", "-y", "default", "good"]).exits(0);
    assert_eq!(fixture.run(read).exits(0).text(), "one\nhome\nsystem\n");
    fixture.vestal(["rm", "-y", "default"]).exits(0);
    fixture.vestal(["restore", "-y", "default", "good"]).exits(0);
    assert_eq!(fixture.run(read).exits(0).text(), "one\nhome\nsystem\n");

    let removed = fixture.vestal(["snapshots", "rm", "-y", "default", "good"]).exits(0);
    assert_eq!(removed.text(), "removed snapshot good of default\n");
    assert_eq!(fixture.vestal(["snapshots", "--json"]).exits(0).json(), json!([]));
    assert!(!fixture.home().join("sandboxes/default/snapshots").exists());
    assert_eq!(then(fixture, "then", read), "one\nhome\nsystem\n");
}

/// Runs shell text in the sandbox of a task and returns what it printed.
#[track_caller]
fn then(fixture: &ProgramFixture, task: &str, text: &str) -> String {
    fixture.vestal(["run", "-t", task, text]).exits(0).text()
}

#[test]
fn native_is_made_anew_and_keeps_its_files() {
    a_sandbox_is_made_anew(&ProgramFixture::native(), "native");
}

#[test]
fn docker_is_made_anew_and_keeps_its_files() {
    a_sandbox_is_made_anew(&ProgramFixture::docker(), "docker");
}

fn a_sandbox_is_made_anew(fixture: &ProgramFixture, backend: &str) {
    fixture.run("echo w > file; echo h > ~/h; echo s > /etc/made").exits(0);
    let asked = fixture.vestal(["rebuild"]).exits(2);
    for part in ["-y", "is recreated", "software installed", "kept: workspace, home"] {
        assert!(asked.stderr.contains(part), "{part}: {asked:?}");
    }
    let id = |fixture: &ProgramFixture| {
        fixture.vestal(["ps", "--json"]).exits(0).json()[0]["id"].clone()
    };
    let before = id(fixture);
    let rebuilt = fixture.vestal(["rebuild", "-y", "--json"]).exits(0).json();
    assert_eq!(
        (&rebuilt["task"], &rebuilt["was"], &rebuilt["now"]),
        (&"default".into(), &backend.into(), &backend.into())
    );
    let dir = fixture.home().join("sandboxes/default").display().to_string();
    assert_eq!(rebuilt["kept"], json!([format!("{dir}/workspace"), format!("{dir}/home")]));
    assert_eq!(fixture.run("cat file ~/h; test -e /etc/made").exits(1).text(), "w\nh\n");
    assert_ne!(id(fixture), before);
    let rebuilt = fixture.vestal(["rebuild", "-y", "default"]).exits(0);
    assert!(rebuilt.text().starts_with(&format!("rebuilt default on {backend}")), "{rebuilt:?}");
}

#[test]
fn the_loss_of_files_in_memory_is_announced_before_and_after() {
    let fixture = ProgramFixture::native();
    let memory = "terminal.container_persistent=false";
    let run = |text: &str| fixture.vestal(["--set", memory, "run", text]).exits(0).text();
    run("echo w > file");
    let asked = fixture.vestal(["rebuild"]).exits(2);
    assert!(
        asked.stderr.contains("workspace and home are in memory and are lost too"),
        "{asked:?}"
    );
    let rebuilt = fixture.vestal(["--set", memory, "rebuild", "-y", "--json"]).exits(0);
    assert_eq!(rebuilt.json()["kept"], json!([]));
    assert!(rebuilt.stderr.contains("were in memory and are gone"), "{rebuilt:?}");
    assert_eq!(run("ls; echo w > file"), "");
    let stopped = fixture.vestal(["--set", memory, "stop"]).exits(0);
    assert_eq!(
        stopped.text(),
        "stopped default; its workspace and home were in memory and are gone\n"
    );
    assert_eq!(run("ls"), "");
}

#[test]
fn docker_takes_over_what_was_native_and_gives_it_back() {
    let fixture = ProgramFixture::docker();
    let native = "native";
    fixture.vestal(["run", "-b", native, "echo w > file; mkdir ~/d; echo h > ~/d/h"]).exits(0);
    let moved = fixture.vestal(["rebuild", "-y", "--backend", "docker"]).exits(0);
    assert!(moved.text().starts_with("rebuilt default on docker (was on native)"), "{moved:?}");
    let seen = fixture.run("cat file ~/d/h; stat -c %u file; echo d >> file").exits(0);
    assert_eq!(seen.text(), "w\nh\n0\n");
    assert_eq!(fixture.containers().len(), 1);
    fixture.vestal(["rebuild", "-y", "--backend", native, "default"]).exits(0);
    // Nobody has to say any more where it lives, whatever the settings name.
    assert_eq!(fixture.run("cat file ~/d/h; stat -c %u file").exits(0).text(), "w\nd\nh\n0\n");
    let listed = fixture.vestal(["ps", "--json"]).exits(0).json();
    assert_eq!(listed[0]["backend"], native);
    assert_eq!(fixture.containers(), [""; 0]);
    let auto = fixture.vestal(["rebuild", "-y", "--backend", "auto"]).exits(2);
    assert!(auto.stderr.contains("name the backend"), "{auto:?}");
    let unknown = fixture.vestal(["rebuild", "-y", "--backend", "dokcer"]).exits(2);
    assert!(unknown.stderr.contains("dokcer"), "{unknown:?}");
}

#[test]
fn what_copies_print_has_the_promised_shape() {
    let fixture = ProgramFixture::native();
    fixture.run("echo x > file").exits(0);
    let redacted = |mut value: Value| {
        let mut replace = |pointer: &str, word: &str| {
            if let Some(found) = value.pointer_mut(pointer) {
                *found = word.into();
            }
        };
        for at in ["", "/snapshot", "/0"] {
            replace(&format!("{at}/created_at"), "[time]");
            replace(&format!("{at}/path"), "[path]");
            replace(&format!("{at}/files"), "[count]");
            replace(&format!("{at}/bytes"), "[bytes]");
        }
        value
    };
    let ran = |args: &[&str]| redacted(fixture.vestal(args).exits(0).json());
    let snapshot = json!({
        "task": "default", "name": "good", "created_at": "[time]", "backend": "native",
        "system": true, "files": "[count]", "bytes": "[bytes]", "note": "why", "path": "[path]",
    });
    assert_eq!(ran(&["snapshot", "--name", "good", "--note", "why", "--json"]), snapshot);
    assert_eq!(ran(&["snapshots", "--json"]), json!([snapshot]));
    assert_eq!(ran(&["snapshots", "list", "default", "--json"]), json!([snapshot]));
    assert_eq!(
        ran(&["fork", "default", "new", "--json"]),
        json!({
            "task": "new", "from": "default", "snapshot": null, "backend": "native",
            "files": "[count]", "bytes": "[bytes]",
        })
    );
    assert_eq!(ran(&["fork", "default", "newer", "--from", "good", "--json"])["snapshot"], "good");
    assert_eq!(
        ran(&["restore", "-y", "default", "good", "--json"]),
        json!({"task": "default", "snapshot": snapshot})
    );
    let inspected = fixture.vestal(["inspect", "--json"]).exits(0).json();
    assert_eq!(redacted(inspected[0]["snapshots"].clone()), json!([snapshot]));
    assert_eq!(ran(&["snapshots", "rm", "-y", "default", "good", "--json"]), json!([snapshot]));
}

#[test]
fn snapshots_are_listed_to_read_and_counted() {
    let fixture = ProgramFixture::native();
    let none = fixture.vestal(["snapshots"]).exits(0);
    assert!(none.stderr.contains("`vestal snapshot TASK` creates one"), "{none:?}");
    fixture.vestal(["run", "-t", "web", "head -c 3000000 /dev/zero > file"]).exits(0);
    let first = fixture.vestal(["snapshot", "web", "--json"]).exits(0).json();
    let second = fixture.vestal(["snapshot", "-t", "web", "--json"]).exits(0).json();
    let names = [&first, &second].map(|made| made["name"].as_str().unwrap().to_owned());
    assert_ne!(names[0], names[1]);
    for name in &names {
        assert!(name.starts_with("20") && name.matches('-').count() >= 3, "{name}");
    }
    let listed = fixture.vestal(["snapshots", "web"]).exits(0).text();
    let lines: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["TASK", "NAME", "CREATED", "SIZE", "NOTE"]);
    assert_eq!([lines[1][1], lines[2][1]], [&*names[0], &*names[1]]);
    assert!(listed.contains("MiB"), "{listed}");
    let inspected = fixture.vestal(["inspect", "web"]).exits(0).text();
    assert!(inspected.contains(&names[0]) && inspected.contains(&names[1]), "{inspected}");
    let doctor = fixture.vestal(["doctor"]).text();
    assert!(doctor.contains("snapshots: 2 in all, "), "{doctor}");
}

#[test]
fn a_name_that_is_not_there_is_answered_with_the_one_that_was_meant() {
    let fixture = ProgramFixture::native();
    fixture.vestal(["run", "-t", "web", "true"]).exits(0);
    fixture.vestal(["snapshot", "web", "--name", "before"]).exits(0);
    for verb in [
        &["restore", "-y", "web", "befroe"][..],
        &["fork", "web", "new", "--from", "befroe"],
        &["snapshots", "rm", "-y", "web", "before", "befroe"],
    ] {
        let refused = fixture.vestal(verb).exits(125);
        assert!(refused.stderr.contains("did you mean before?"), "{verb:?}: {refused:?}");
    }
    for verb in [
        &["snapshot", "wbe"][..],
        &["snapshots", "wbe"],
        &["restore", "-y", "wbe", "before"],
        &["fork", "wbe", "new"],
        &["rebuild", "-y", "wbe"],
    ] {
        let refused = fixture.vestal(verb).exits(125);
        assert!(refused.stderr.contains("did you mean web?"), "{verb:?}: {refused:?}");
    }
    assert_eq!(fixture.tasks(), ["web"]);
    assert_eq!(snapshots(&fixture), ["before"]);
    for wrong in ["../x", ".x", "a b", ""] {
        fixture.vestal(["snapshot", "web", "--name", wrong]).exits(2);
    }
}

fn snapshots(fixture: &ProgramFixture) -> Vec<String> {
    let listed = fixture.vestal(["snapshots", "--json"]).exits(0).json();
    let listed = listed.as_array().unwrap().iter();
    listed.map(|snapshot| snapshot["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_name_that_is_taken_is_refused_and_nothing_is_lost() {
    let fixture = ProgramFixture::native();
    fixture.run("echo one > file").exits(0);
    fixture.vestal(["run", "-t", "other", "echo other > file"]).exits(0);
    fixture.vestal(["snapshot", "--name", "good"]).exits(0);
    fixture.run("echo two > file").exits(0);
    let taken = fixture.vestal(["snapshot", "--name", "good"]).exits(125);
    assert!(taken.stderr.contains("choose another name"), "{taken:?}");
    let taken = fixture.vestal(["fork", "default", "other"]).exits(125);
    assert!(taken.stderr.contains("choose another task"), "{taken:?}");
    assert_eq!(then(&fixture, "other", "cat file"), "other\n");
    fixture.vestal(["fork", "default", "default"]).exits(125);
    fixture.vestal(["restore", "-y", "default", "good"]).exits(0);
    assert_eq!(fixture.run("cat file").exits(0).text(), "one\n");
}

#[test]
fn a_busy_sandbox_is_left_alone_unless_it_may_be_stopped() {
    let fixture = ProgramFixture::native();
    fixture.run("echo x > file").exits(0);
    fixture.vestal(["snapshot", "--name", "good"]).exits(0);
    let job = fixture.background("echo ready; sleep 1000");
    assert_eq!(fixture.start(["logs", "-f", &job]).line(), "ready");
    let verbs = [
        &["snapshot", "--name", "more"][..],
        &["fork", "default", "new"],
        &["restore", "-y", "default", "good"],
        &["rebuild", "-y"],
    ];
    for verb in verbs {
        let refused = fixture.vestal(verb).exits(125);
        assert!(refused.stderr.contains("is in use"), "{verb:?}: {refused:?}");
        assert!(refused.stderr.contains("--stop"), "{verb:?}: {refused:?}");
    }
    // What is refused anyway is refused before anybody is asked.
    let person = ShellTerminal::start(&fixture, &["restore", "default", "good"]);
    let (code, printed) = person.leaves();
    assert_eq!(code, 125, "{printed}");
    assert!(printed.contains("is in use") && printed.contains("--stop"), "{printed}");
    assert!(!printed.contains("Restore?"), "{printed}");
    assert_eq!(fixture.job(&job)["state"], "running");
    assert_eq!(fixture.tasks(), ["default"]);
    assert_eq!(snapshots(&fixture), ["good"]);
    // Of what was kept a copy can be made whatever runs.
    fixture.vestal(["fork", "default", "old", "--from", "good"]).exits(0);
    assert_eq!(fixture.job(&job)["state"], "running");
    for verb in verbs {
        let job = fixture.background("echo ready; sleep 1000");
        assert_eq!(fixture.start(["logs", "-f", &job]).line(), "ready");
        fixture.vestal(verb.iter().chain(&["--stop"])).exits(0);
        assert_eq!(fixture.run("cat file; pgrep sleep").exits(1).text(), "x\n", "{verb:?}");
    }
}

#[test]
fn a_sandbox_without_files_of_its_own_is_not_copied() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    for verb in [&["snapshot"][..], &["fork", "default", "new"]] {
        let refused = fixture.vestal(verb).exits(125);
        assert!(refused.stderr.contains("the host's own"), "{verb:?}: {refused:?}");
        assert!(refused.stderr.contains("vestal rebuild --backend native"), "{refused:?}");
    }
    assert_eq!(fixture.tasks(), ["default"]);
}

#[test]
fn nothing_is_announced_of_a_sandbox_that_does_not_exist() {
    let fixture = ProgramFixture::new();
    fixture.vestal(["run", "-t", "web", "true"]).exits(0);
    for verb in [&["snapshot", "wbe"][..], &["fork", "wbe", "new"], &["cp", "wbe:x", "y"]] {
        let refused = fixture.vestal(verb).exits(125).stderr;
        assert!(refused.starts_with("error: "), "{verb:?}: {refused}");
        assert!(refused.contains("did you mean web?"), "{verb:?}: {refused}");
        assert!(!refused.contains("note: "), "{verb:?}: {refused}");
    }
    assert_eq!(fixture.tasks(), ["web"]);
}

#[test]
fn a_person_sees_what_goes_and_is_asked() {
    let fixture = ProgramFixture::native();
    fixture.run("echo one > file").exits(0);
    fixture.vestal(["snapshot", "--name", "good"]).exits(0);
    fixture.run("echo two > file").exits(0);
    let refused = fixture.vestal(["restore", "default", "good"]).exits(2);
    assert!(refused.stderr.contains("is lost"), "{refused:?}");
    fixture.vestal(["snapshots", "rm", "default", "good"]).exits(2);
    for (verb, reported, question, declined) in [
        (&["restore", "default", "good"][..], "replaces workspace", "Restore? [y/N] ", "restored"),
        (&["rebuild"], "is recreated", "Rebuild? [y/N] ", "rebuilt"),
        (&["snapshots", "rm", "default", "good"], "will be deleted", "Remove? [y/N] ", "removed"),
    ] {
        let mut person = ShellTerminal::start(&fixture, verb);
        person.sees(reported);
        person.sees(question);
        person.types("n\r");
        person.sees(&format!("nothing was {declined}"));
        assert_eq!(person.leaves().0, 1);
    }
    assert_eq!(fixture.run("cat file").exits(0).text(), "two\n");
    let mut person = ShellTerminal::start(&fixture, &["restore", "default", "good"]);
    person.sees("Restore? [y/N] ");
    person.types("y\r");
    assert_eq!(person.leaves().0, 0);
    assert_eq!(fixture.run("cat file").exits(0).text(), "one\n");
}

#[test]
fn a_copy_shows_how_far_it_is() {
    let fixture = ProgramFixture::native();
    fixture.run("truncate -s 1G big").exits(0);
    // Where nothing can be shown, a line says what begins and one what came of it.
    let piped = fixture.vestal(["snapshot", "--name", "x"]).exits(0);
    assert_eq!(
        piped.stderr,
        "note: copying default\n\
         note: to go back to it: vestal restore default x\n"
    );
    assert!(piped.text().starts_with("saved default as x ("), "{piped:?}");

    fill(&fixture, 60);
    let before = trees(&fixture);
    let mut person = ShellTerminal::start(&fixture, &["fork", "default", "new"]);
    // Only what takes long is shown: a copy that stands still does, however small it is.
    let held = HeldCopy::once_begun(&fixture, &before);
    person.sees("forking default to new …");
    held.goes_on();
    person.sees("copying ");
    person.sees(" files");
    let (code, rest) = person.leaves();
    assert_eq!(code, 0, "{rest}");
    let end = rest.find("forked default to new on native (12").unwrap();
    assert!(rest[..end].ends_with("\r\x1b[2K"), "the line is cleared: {rest:?}");
    // As large as it sounds, and on disk next to nothing.
    let big = "stat -c %s big; test $(stat -c %b big) -lt 100 && echo hollow";
    assert_eq!(then(&fixture, "new", big), "1073741824\nhollow\n");
}

#[test]
fn a_copy_that_is_interrupted_leaves_nothing() {
    let fixture = ProgramFixture::native();
    fixture.run("true").exits(0);
    fill(&fixture, 40);
    let before = directories(&fixture.home().join("sandboxes"), 3);
    let interrupted = |verb: &[&str]| {
        let copies = trees(&fixture);
        let mut person = ShellTerminal::start(&fixture, verb);
        // It cannot be over before it is interrupted.
        let held = HeldCopy::once_begun(&fixture, &copies);
        person.types("\x03");
        held.goes_on();
        let (code, rest) = person.leaves();
        assert_eq!(code, 130, "{verb:?}: {rest}");
        assert!(rest.contains("nothing incomplete is left"), "{verb:?}: {rest}");
        assert_eq!(trees(&fixture), copies, "{verb:?}");
    };
    for verb in [&["fork", "default", "new"][..], &["snapshot", "--name", "half"]] {
        interrupted(verb);
        assert_eq!(directories(&fixture.home().join("sandboxes"), 3), before, "{verb:?}");
    }
    assert_eq!(fixture.tasks(), ["default"]);
    assert_eq!(fixture.run("find many -type f | wc -l").exits(0).text(), "8000\n");
    // What was interrupted can be done, and what it made be gone back to.
    fixture.vestal(["snapshot", "--name", "half"]).exits(0);
    fixture.run("rm -r many/1; echo x > more").exits(0);
    interrupted(&["restore", "-y", "default", "half"]);
    let left = fixture.run("find many -type f | wc -l; cat more").exits(0).text();
    assert_eq!(left, "7800\nx\n");
    assert_eq!(snapshots(&fixture), ["half"]);
    fixture.vestal(["restore", "-y", "default", "half"]).exits(0);
    assert_eq!(fixture.run("find many -type f | wc -l; ls").exits(0).text(), "8000\nmany\n");
}

/// A copy that stands still.
struct HeldCopy(Vec<u32>);

impl HeldCopy {
    /// Waits until there is another tree of the many files than before, and holds the program that
    /// fills it.
    #[track_caller]
    fn once_begun(fixture: &ProgramFixture, before: &[PathBuf]) -> Self {
        wait_until("a copy has begun", || trees(fixture) != before);
        let copying =
            processes_with(&format!("\0copy\0--with-caller\0{}", fixture.home().display()));
        for pid in &copying {
            signal(*pid, Signal::STOP);
        }
        Self(copying)
    }

    fn goes_on(self) {
        for pid in self.0 {
            signal(pid, Signal::CONT);
        }
    }
}

/// Fills the workspace with directories of 200 files each, as commands in it
/// would.
fn fill(fixture: &ProgramFixture, directories: u32) {
    let many = fixture.home().join("sandboxes/default/workspace/many");
    fs::create_dir(&many).unwrap();
    for directory in 0..directories {
        let directory = many.join(directory.to_string());
        fs::create_dir(&directory).unwrap();
        for file in 0..200 {
            fs::write(directory.join(file.to_string()), "x").unwrap();
        }
    }
}

/// Returns where the many files and their copies are.
fn trees(fixture: &ProgramFixture) -> Vec<PathBuf> {
    let mut found = directories(&fixture.home().join("sandboxes"), 6);
    found.retain(|path| path.ends_with("many"));
    found
}

/// Returns the directories below one, this many levels deep.
fn directories(dir: &Path, depth: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    if depth > 1 {
        let inner: Vec<PathBuf> = found
            .iter()
            .filter(|path| !path.ends_with("many"))
            .flat_map(|path| directories(path, depth - 1))
            .collect();
        found.extend(inner);
    }
    found.sort();
    found
}
