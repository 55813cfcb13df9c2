//! Credential files that the settings declare.

use std::fs;
use std::path::Path;

use vestal_sandbox::{Command, Engine, Error, Sandbox, TaskName};

use crate::support::BackendFixture;

fn engine(fixture: &BackendFixture, files: &[&str]) -> Engine {
    let files = serde_json::Value::from(files.to_vec());
    fixture.engine_with(&[&format!("terminal.credential_files={files}")])
}

async fn sandbox(engine: &Engine) -> Sandbox {
    engine.sandbox(&TaskName::default_task()).await.unwrap()
}

async fn run(sandbox: &Sandbox, text: &str) -> String {
    let output = sandbox.run(Command::shell(text)).await.unwrap();
    output.stdout.text() + &output.stderr.text()
}

fn write(fixture: &BackendFixture, below: &str, text: &str) {
    let path = fixture.user_home().join(below);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // As programs do that renew their tokens.
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, &path).unwrap();
}

/// Says who may read the copies, and what is in them.
const LOOK: &str = "cd ~; for f in .aws/credentials .netrc; do \
                    [ ! -e $f ] || { stat -c '%a' $f; cat $f; }; done; ls -A .aws 2>/dev/null; true";

pub(crate) async fn declared_credential_files_are_there_for_its_user_alone_and_follow(
    fixture: &BackendFixture,
) {
    write(fixture, ".aws/credentials", "first\n");
    write(fixture, ".netrc", "other\n");
    write(fixture, ".ssh/id", "never declared\n");
    let both = engine(fixture, &["~/.aws/credentials", "~/.netrc"]);
    let held = sandbox(&both).await;
    assert_eq!(run(&held, LOOK).await, "600\nfirst\n600\nother\ncredentials\n");
    assert_eq!(run(&held, "cat ~/.ssh/id 2>/dev/null || echo none").await, "none\n");
    // A token that was renewed here is renewed there; what a command made of it there never
    // comes back, nor outlives the next one.
    run(&held, "echo spoilt > ~/.netrc; chmod 644 ~/.netrc").await;
    write(fixture, ".aws/credentials", "second\n");
    write(fixture, ".netrc", "another\n");
    assert_eq!(run(&held, LOOK).await, "600\nsecond\n600\nanother\ncredentials\n");
    let here = fs::read_to_string(fixture.user_home().join(".netrc")).unwrap();
    assert_eq!(here, "another\n");

    // What is not declared any more goes, whoever brought it.
    let one = engine(fixture, &["~/.netrc"]);
    let other = sandbox(&one).await;
    assert_eq!(run(&other, LOOK).await, "600\nanother\n");
    assert_eq!(run(&sandbox(&fixture.engine()).await, LOOK).await, "");
    // And a file that is gone here is gone there, which is said.
    let again = sandbox(&engine(fixture, &["~/.aws/credentials", "~/.netrc"])).await;
    assert_eq!(run(&again, LOOK).await, "600\nsecond\n600\nanother\ncredentials\n");
    again.take_sync_notes();
    fs::remove_file(fixture.user_home().join(".netrc")).unwrap();
    assert_eq!(run(&again, LOOK).await, "600\nsecond\ncredentials\n");
    assert!(again.take_sync_notes()[0].contains("~/.netrc is not there"));
}

pub(crate) async fn a_credential_file_is_taken_from_nowhere_but_the_users_home(
    fixture: &BackendFixture,
) {
    let outside = fixture.scratch("outside");
    fs::write(&outside, "secret\n").unwrap();
    std::os::unix::fs::symlink(&outside, fixture.user_home().join("way")).unwrap();
    let task = TaskName::default_task();
    for wrong in [outside.to_str().unwrap(), "~/way"] {
        let engine = engine(fixture, &[wrong]);
        let sandbox = engine.sandbox(&task).await.unwrap();
        let error = sandbox.run(Command::shell("touch ~/ran")).await.unwrap_err();
        assert!(matches!(error, Error::Credentials(_)), "{error:?}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    let left = run(&sandbox(&fixture.engine()).await, "ls ~ | grep -c -e ran -e way").await;
    assert_eq!(left, "0\n", "no command ran, and nothing was brought");
    assert!(Path::new(&outside).exists());
}
