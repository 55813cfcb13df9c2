//! Files of the host that a sandbox is shown, and variables that it is given.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use vestal_config::EnvName;
use vestal_sandbox::{Command, Engine, Error, FilesOnRemoval, PublishError, Sandbox, TaskName};

use crate::support::BackendFixture;

/// No directory of the fixture is in a container by itself.
const NOTHING_ELSE: &str = "terminal.docker_volumes=[]";

fn engine(fixture: &BackendFixture) -> Engine {
    fixture.engine_with(&[NOTHING_ELSE])
}

async fn sandbox(fixture: &BackendFixture) -> Sandbox {
    engine(fixture).sandbox(&TaskName::default_task()).await.unwrap()
}

async fn run(sandbox: &Sandbox, text: &str) -> String {
    let output = sandbox.run(Command::shell(text)).await.unwrap();
    output.stdout.text() + &output.stderr.text()
}

/// Makes a directory of files, private to the user as a profile's home is.
fn source(fixture: &BackendFixture, name: &str, text: &str) -> PathBuf {
    let dir = fixture.scratch(name);
    fs::create_dir_all(dir.join("scripts")).unwrap();
    fs::write(dir.join("text"), text).unwrap();
    fs::write(dir.join("scripts/run"), "#!/bin/sh\ncat \"${0%/*}/../text\"\n").unwrap();
    let mode = fs::Permissions::from_mode;
    fs::set_permissions(dir.join("scripts/run"), mode(0o700)).unwrap();
    fs::set_permissions(dir.join("text"), mode(0o600)).unwrap();
    fs::set_permissions(&dir, mode(0o700)).unwrap();
    dir
}

async fn publish(sandbox: &Sandbox, dir: &Path) -> PathBuf {
    sandbox.publish("skills/one", dir).await.unwrap()
}

pub(crate) async fn published_files_can_be_read_and_run_and_not_changed(fixture: &BackendFixture) {
    let dir = source(fixture, "source", "as it was\n");
    let sandbox = sandbox(fixture).await;
    let shown = publish(&sandbox, &dir).await;
    let at = shown.display();
    assert_eq!(
        run(&sandbox, &format!("cat {at}/text; {at}/scripts/run")).await,
        "as it was\nas it was\n"
    );
    let attempts = format!(
        "cd {at} || exit; for try in 'echo spoilt > text' 'chmod 666 text' 'rm -f text' \
         'touch new' 'mv scripts moved'; do eval \"$try\" 2>/dev/null && echo \"$try\"; done; cat text"
    );
    let printed = run(&sandbox, &attempts).await;
    if fixture.is_contained() {
        assert_eq!(printed, "as it was\n", "nothing of it can be changed");
    }
    // Where nothing confines commands, what they change is not what they were shown.
    assert_eq!(fs::read_to_string(dir.join("text")).unwrap(), "as it was\n");
    assert_eq!(publish(&sandbox, &dir).await, shown);
    let mended = run(&sandbox, &format!("cat {at}/text; ls {at}")).await;
    assert_eq!(mended, "as it was\nscripts\ntext\n");
}

pub(crate) async fn a_new_version_of_published_files_replaces_the_old(fixture: &BackendFixture) {
    let dir = source(fixture, "source", "one\n");
    let first = sandbox(fixture).await;
    let shown = publish(&first, &dir).await;
    let at = shown.display();
    fs::write(dir.join("text"), "two\n").unwrap();
    fs::remove_file(dir.join("scripts/run")).unwrap();
    fs::write(dir.join("more"), "").unwrap();
    assert_eq!(run(&first, &format!("cat {at}/text")).await, "one\n", "not before it is published");
    // Another process shows it under the same path.
    assert_eq!(publish(&sandbox(fixture).await, &dir).await, shown);
    assert_eq!(run(&first, &format!("cat {at}/text; ls {at}")).await, "two\nmore\nscripts\ntext\n");
    let versions = format!("ls -a {at}/.. | grep -c one");
    assert_eq!(run(&first, &versions).await, "2\n", "the link and one version");
}

pub(crate) async fn published_files_outlive_a_stop_and_come_with_a_new_instance(
    fixture: &BackendFixture,
) {
    let dir = source(fixture, "source", "kept\n");
    let gone = source(fixture, "gone", "gone\n");
    let first = sandbox(fixture).await;
    let shown = publish(&first, &dir).await;
    let other = first.publish("skills/other", &gone).await.unwrap();
    let look = |at: &Path| format!("cat {}/text 2>/dev/null || echo none", at.display());
    drop(first);
    assert!(engine(fixture).stop(&TaskName::default_task()).await.unwrap());
    let started = sandbox(fixture).await;
    assert_eq!(run(&started, &look(&shown)).await, "kept\n");
    assert_eq!(run(&started, &look(&other)).await, "gone\n");
    // One that is rebuilt is shown what still is.
    let instance = started.instance().await;
    drop(started);
    run(&sandbox(fixture).await, "echo > ~/keeps-the-sandbox").await;
    fs::remove_dir_all(&gone).unwrap();
    fs::create_dir_all(fixture.sandbox_dir("default").join("workspace")).unwrap();
    engine(fixture).remove(&TaskName::default_task(), FilesOnRemoval::Keep).await.unwrap();
    let anew = sandbox(fixture).await;
    assert_ne!(anew.instance().await, instance);
    let instance = anew.instance().await;
    let place = |at: &Path| {
        if fixture.is_contained() {
            return at.to_owned();
        }
        // On the host itself they are below the instance's own directory.
        let dir = fixture.sandbox_dir("default").join("instances").join(&instance);
        dir.join("shown/skills").join(at.file_name().unwrap())
    };
    assert_eq!(run(&anew, &look(&place(&shown))).await, "kept\n");
    assert_eq!(run(&anew, &look(&place(&other))).await, "none\n");
    assert_eq!(publish(&anew, &dir).await, place(&shown));
}

pub(crate) async fn publishing_is_no_drift_and_makes_no_new_instance(fixture: &BackendFixture) {
    let dir = source(fixture, "source", "x\n");
    let first = sandbox(fixture).await;
    let instance = first.instance().await;
    publish(&first, &dir).await;
    let second = sandbox(fixture).await;
    assert_eq!(second.notices(), []);
    assert_eq!(second.instance().await, instance);
    assert_eq!(second.reach().await, first.reach().await);
    let summaries = engine(fixture).list().await.unwrap();
    assert!(summaries.iter().all(|summary| summary.drift.is_empty()), "{summaries:?}");
}

pub(crate) async fn what_cannot_be_published_is_refused_by_name(fixture: &BackendFixture) {
    let dir = source(fixture, "source", "x\n");
    let sandbox = sandbox(fixture).await;
    let shown = publish(&sandbox, &dir).await;
    symlink("/etc/passwd", dir.join("leak")).unwrap();
    let error = sandbox.publish("skills/one", &dir).await.unwrap_err();
    assert!(matches!(error, Error::Publish(PublishError::Source { .. })), "{error}");
    assert!(error.to_string().contains("leak is a link that leads out of it"), "{error}");
    for wrong in ["one", "skills/../one", "guest/x", "skills/a/b", "skills/"] {
        let error = sandbox.publish(wrong, &dir).await.unwrap_err();
        assert!(matches!(error, Error::Publish(PublishError::Name(_))), "{wrong}: {error}");
    }
    let error = sandbox.publish("skills/none", &fixture.scratch("none")).await.unwrap_err();
    assert!(error.to_string().contains("none"), "{error}");
    // What was shown before is as it was.
    assert_eq!(run(&sandbox, &format!("cat {}/text", shown.display())).await, "x\n");
}

pub(crate) async fn concurrent_publishers_leave_one_whole_version(fixture: &BackendFixture) {
    let sources = [source(fixture, "a", "a\n"), source(fixture, "b", "b\n")];
    let first = sandbox(fixture).await;
    let shown = publish(&first, &sources[0]).await;
    let mut publishers = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (sandbox, dir) = (sandbox(fixture).await, sources[number % 2].clone());
        publishers.spawn(async move {
            for _ in 0..3 {
                publish(&sandbox, &dir).await;
            }
        });
    }
    // A reader meanwhile sees one of them whole.
    let look = format!("cat {0}/text; {0}/scripts/run; ls {0} | wc -l", shown.display());
    while !publishers.is_empty() {
        let text = run(&first, &format!("cat {}/text", shown.display())).await;
        assert!(text == "a\n" || text == "b\n", "{text}");
        while let Some(published) = publishers.try_join_next() {
            published.unwrap();
        }
    }
    let left = run(&first, &look).await;
    assert!(["a\na\n2\n", "b\nb\n2\n"].contains(&&*left.replace(' ', "")), "{left}");
    let versions = format!("ls -a {}/.. | grep -c one", shown.display());
    assert_eq!(run(&first, &versions).await, "2\n");
}

pub(crate) async fn variables_that_are_asked_for_reach_a_sandbox_that_is_there(
    fixture: &BackendFixture,
) {
    let secret = "tvly-a-secret-that-was-asked-for";
    let extra = [("TAVILY_API_KEY", secret), ("OPENAI_API_KEY", "sk-never-handed-out")];
    let before = sandbox(fixture).await;
    let instance = before.instance().await;
    let engine = Engine::open(fixture.settings(&[NOTHING_ELSE], &extra)).unwrap();
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let show = "echo ${#TAVILY_API_KEY} ${OPENAI_API_KEY-none}";
    let main = async |text: &str| {
        let output = sandbox.run(Command::shell(text).session("main")).await.unwrap();
        output.stdout.text()
    };
    assert_eq!(main(show).await, "0 none\n");
    let names = ["TAVILY_API_KEY", "OPENAI_API_KEY", "NOT_SET"];
    let names: Vec<EnvName> = names.iter().map(|name| EnvName::new(name).unwrap()).collect();
    engine.forward(&names);
    assert_eq!(main(show).await, format!("{} none\n", secret.len()));
    assert_eq!(sandbox.instance().await, instance);
    assert_eq!(sandbox.notices(), []);
    // A job in the background has it too, and no file keeps it.
    let job = sandbox.spawn(Command::shell("test -n \"$TAVILY_API_KEY\"")).await.unwrap();
    let job = sandbox.wait(&job.id, None).await.unwrap();
    let code = match job.state {
        vestal_wire::JobState::Ended(exit) => exit.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code, Some(0));
    let found = std::process::Command::new("grep")
        .args(["--recursive", "--files-with-matches", "--fixed-strings", secret])
        .arg(fixture.home())
        .output()
        .unwrap();
    assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    engine.forward(&[]);
    assert_eq!(main(show).await, "0 none\n");
    drop(before);
}
