//! A fake engine for tests: a socket that gives the test's answers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use vestal_config::{Environment, Home, Override, Settings};

/// The answer to a ping.
pub(in crate::backends::docker) const PING: &str = "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nServer: Docker/20.10\r\n\
                               Connection: close\r\nContent-Length: 2\r\n\r\nOK";

/// An engine that gives the test's answers.
pub(in crate::backends::docker) struct FakeEngine {
    dir: TempDir,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl FakeEngine {
    /// Starts an engine that answers pings itself and everything else with `answer`,
    /// which gets the request's head.
    pub(in crate::backends::docker) fn start(
        answer: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::start_named("engine.sock", answer)
    }

    pub(in crate::backends::docker) fn start_named(
        name: &str,
        answer: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // A long name is bound through the directory's descriptor.
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let short = super::socket::SocketPath::new(&path).unwrap();
        let listener = UnixListener::bind(short.as_path()).unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serve(stream, &seen, &answer).await;
            }
        });
        Self { dir, requests, task }
    }

    pub(in crate::backends::docker) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the heads of all requests except pings, in order.
    pub(in crate::backends::docker) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns settings that choose this engine.
    pub(in crate::backends::docker) fn settings(&self) -> Settings {
        self.settings_with(&[])
    }

    pub(in crate::backends::docker) fn settings_with(
        &self,
        variables: &[(&str, &str)],
    ) -> Settings {
        let host = format!("unix://{}", self.path("engine.sock").display());
        let own = [("DOCKER_HOST", host.as_str()), ("HOME", self.dir.path().to_str().unwrap())];
        settings(self.dir.path(), own.iter().chain(variables).copied(), &[])
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns settings of a home below `dir`.
pub(in crate::backends::docker) fn settings<'a>(
    dir: &Path,
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    sets: &[&str],
) -> Settings {
    let overrides =
        sets.iter().map(|text| Override::parse(&crate::schema(), text).unwrap()).collect();
    Settings::load(
        &crate::schema(),
        Home::at(dir.join("vestal")),
        Environment::from_pairs(variables),
        overrides,
    )
}

/// Writes a program that can be run at once. Another process writes it: a file that
/// this process has open for writing cannot be run, and a child that is being
/// started inherits the descriptor.
pub(in crate::backends::docker) fn write_program(path: &Path, script: &str) {
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#;
    let status =
        std::process::Command::new("/bin/sh").arg("-c").arg(write).arg(path).arg(script).status();
    assert!(status.unwrap().success());
}

/// Returns an answer with this status and body.
pub(in crate::backends::docker) fn answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn serve(
    mut stream: UnixStream,
    seen: &Mutex<Vec<String>>,
    answer: &(impl Fn(&str) -> String + Send + Sync),
) {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read_buf(&mut request).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    let head = String::from_utf8_lossy(&request).into_owned();
    let response = if head.starts_with("GET /_ping ") {
        PING.to_owned()
    } else {
        seen.lock().unwrap().push(head.clone());
        answer(&head)
    };
    stream.write_all(response.as_bytes()).await.ok();
    stream.shutdown().await.ok();
    // The rest of the request is read, so that the connection is not reset.
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok();
}
