//! A sandbox in a real browser: its terminal, its files, what is done to it, and what listens in it.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use vestal_config::{Environment, Home, Settings};
use vestal_dashboard::gate::Right;
use vestal_sandbox::{Command, Engine, FilesOnRemoval, TaskName};

use crate::support::DashboardFixture;
use crate::{WITHIN, browser, say};

/// Answers with what it was asked, listens on a port of its own choice and says which.
const SERVER: &str = r#"
const http = require("node:http");
const server = http.createServer((request, response) => {
  response.setHeader("set-cookie", ["app=1; Path=/", "vestal_session_x=stolen; Path=/", "wide=1; Domain=localhost"]);
  response.setHeader("content-type", "text/html");
  response.end(`<title>previewed</title><h1>Inside</h1><pre id="asked">${JSON.stringify(request.headers)}</pre>
    <script>document.cookie = "vestal_session_y=planted; Domain=localhost; Path=/";</script>`);
});
server.on("upgrade", (request, socket) => {
  socket.write("HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\nconnection: upgrade\r\n\r\n");
  socket.pipe(socket);
});
server.listen(0, "127.0.0.1", () => console.log("listening", server.address().port));
"#;

/// A small picture, and a document that looks like one.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0a, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x63, 0, 1, 0, 0, 5, 0, 1, 0x0d, 0x0a, 0x2d, 0xb4, 0, 0, 0, 0, b'I', b'E', b'N',
    b'D', 0xae, 0x42, 0x60, 0x82,
];
const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"document.title='owned'\"/>";

/// Opens the engine that another process would have.
pub(crate) fn engine(fixture: &DashboardFixture) -> Engine {
    let user = fixture.home.to_str().unwrap();
    let environment =
        Environment::from_pairs([("HOME", user), ("PATH", "/usr/local/bin:/usr/bin:/bin")]);
    let home = Home::at(&fixture.home);
    Engine::open(Settings::load(&vestal_api::schema(), home, environment, Vec::new())).unwrap()
}

/// Types into a shell that it leaves and comes back to, changes files that somebody else changes too, is
/// told what goes before it goes, finds an action again, and looks at a page inside that can do nothing
/// to the dashboard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_works_in_a_sandbox_in_the_browser() {
    let fixture = DashboardFixture::start().await;
    std::fs::write(fixture.home.join("config.yaml"), "terminal:\n  backend: local\n").unwrap();
    let files = fixture.home.join("files");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("notes.txt"), "first\n").unwrap();
    std::fs::write(files.join("picture.png"), PNG).unwrap();
    std::fs::write(files.join("picture.svg"), SVG).unwrap();
    std::fs::write(files.join("<img src=x onerror=alert(1)>.html"), "<script>alert(1)</script>")
        .unwrap();
    std::fs::write(files.join("server.cjs"), SERVER).unwrap();
    let engine = engine(&fixture);
    let task: TaskName = "web".parse().unwrap();
    let sandbox = engine.sandbox(&task).await.unwrap();
    sandbox.run(Command::shell("true").session("main")).await.unwrap();
    let server = Command::argv(["node", files.join("server.cjs").to_str().unwrap()]);
    sandbox.spawn(server).await.unwrap();
    let mut command = browser(&fixture, "sandboxes.mjs");
    command.env("FILES", &files);
    let mut child = command.spawn().expect("node is not installed; scripts/test installs it");
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    say(&mut stdin, &fixture.link(Right::Operator).await).await;
    say(&mut stdin, &fixture.link(Right::Viewer).await).await;
    let story = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            match line.as_str() {
                "change the notes" => {
                    std::fs::write(files.join("notes.txt"), "changed by somebody else\n").unwrap();
                    say(&mut stdin, "done").await;
                }
                other => println!("{other}"),
            }
        }
    };
    let reported = tokio::time::timeout(WITHIN, story).await;
    drop(sandbox);
    engine.remove(&task, FilesOnRemoval::Remove).await.ok();
    engine.close(Duration::from_mins(1)).await;
    reported.expect("the browser does not come to an end");
    let status = child.wait().await.unwrap();
    let mut reply = String::new();
    child.stderr.take().unwrap().read_to_string(&mut reply).await.unwrap();
    assert!(status.success(), "{reply}");
    let notes = std::fs::read_to_string(files.join("notes.txt")).unwrap();
    assert_eq!(notes, "third\n", "what was saved over it");
    fixture.stop().await;
}
