//! A real browser against a dashboard: Chromium driven by `playwright-core`. `scripts/test` installs
//! both and names the directory of the packages by `VESTAL_TEST_BROWSER`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../gate/client.rs"]
mod client;

#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../gate/support.rs"]
mod support;

#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../gate/fixtures.rs"]
mod fixtures;

mod admin;
mod board;
mod chat;
mod copies;
mod hostile;
mod load;
mod oidc;
mod sandboxes;
mod sessions;
mod types;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, Command};
use vestal_dashboard::gate::Right;

use support::DashboardFixture;

/// How long the whole story may take on a slow, busy machine.
const WITHIN: Duration = Duration::from_mins(4);

/// Where the packages are. A run without them is red, and says why.
#[expect(clippy::disallowed_methods, reason = "it comes from scripts/test and is not a setting")]
fn packages() -> PathBuf {
    let dir = std::env::var_os("VESTAL_TEST_BROWSER");
    PathBuf::from(dir.expect("VESTAL_TEST_BROWSER is not set; scripts/test installs the browser"))
}

/// Where pictures of the pages are kept, if somebody wants them.
#[expect(clippy::disallowed_methods, reason = "a switch of the test is not a setting")]
fn pictures() -> Option<std::ffi::OsString> {
    std::env::var_os("VESTAL_TEST_PICTURES")
}

/// Node with a script of this directory that drives a browser against a fixture.
fn browser(fixture: &DashboardFixture, script: &str) -> Command {
    // What the browser and its libraries keep for a desktop goes with the fixture: a browser that
    // ends does not always remove its temporary files.
    let own = |name: &str| {
        let dir = fixture.home.join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
        dir
    };
    let mut command = Command::new("node");
    command
        .env("XDG_RUNTIME_DIR", own("runtime"))
        .env("TMPDIR", own("browser"))
        .env("GSETTINGS_BACKEND", "memory")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser").join(script))
        .env("PACKAGES", packages())
        .env("BASE", format!("http://{}", fixture.authority()))
        .current_dir(&fixture.home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(dir) = pictures() {
        command.env("PICTURES", dir);
    }
    command
}

async fn say(stdin: &mut ChildStdin, line: &str) {
    stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
}

/// Logs in by a link, looks at every page on a desktop and a phone, sees a change as it happens, is
/// shown hostile text as text, and is led back to the login when the session ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_logs_in_by_a_link_and_sees_what_happens() {
    let fixture = DashboardFixture::start().await;
    fixture.create_task("<img src=x onerror=\"document.title='owned'\">").await;
    fixture.create_blocked_task("Choose a name", "which of the two names is it to be?").await;
    fixture.break_board("broken");
    let link = fixture.link(Right::Operator).await;
    let mut command = browser(&fixture, "story.mjs");
    let mut child = command.spawn().expect("node is not installed; scripts/test installs it");
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // By standard input: everybody can read arguments and variables of a process.
    say(&mut stdin, &link).await;
    let story = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            match line.as_str() {
                "make a task" => fixture.create_task("Made a moment ago").await,
                "make another task" => {
                    fixture.create_task("Made while nobody looked").await;
                    say(&mut stdin, "done").await;
                }
                "end all sessions" => {
                    fixture.end_sessions().await;
                    say(&mut stdin, "done").await;
                }
                other => println!("{other}"),
            }
        }
    };
    tokio::time::timeout(WITHIN, story).await.expect("the browser does not come to an end");
    let status = child.wait().await.unwrap();
    let mut reply = String::new();
    child.stderr.take().unwrap().read_to_string(&mut reply).await.unwrap();
    assert!(status.success(), "{reply}");
    assert_eq!(fixture.status_of("Choose a name").await, "ready", "the answer let it go on");
    fixture.stop().await;
}
