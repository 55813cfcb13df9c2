//! Another process that uses the same home.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command as Process};

/// Another process that uses the same home.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(mut process: Process) -> Self {
        process
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = process.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits for the next line it prints.
    pub(crate) async fn line(&mut self) -> Value {
        match self.lines.next_line().await.unwrap() {
            Some(line) => serde_json::from_str(&line).unwrap(),
            None => panic!("the worker ended: {}", self.errors().await),
        }
    }

    /// Writes to its standard input.
    pub(crate) async fn send(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    }

    /// Kills it as a crash would.
    pub(crate) async fn crash(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits for its end and returns whether it died of SIGKILL.
    pub(crate) async fn was_killed(mut self) -> bool {
        use std::os::unix::process::ExitStatusExt as _;
        drop(self.child.stdin.take());
        let status = self.child.wait().await.unwrap();
        if status.signal() == Some(9) {
            return true;
        }
        assert!(status.success(), "{}", self.errors().await);
        false
    }

    /// Lets it go on to its end, which must be a good one.
    pub(crate) async fn finish(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().await.unwrap();
        assert!(status.success(), "{}", self.errors().await);
    }

    /// Waits for its end, which must be a good one, and returns what it printed
    /// first.
    pub(crate) async fn done(mut self) -> Value {
        let line = self.line().await;
        self.finish().await;
        line
    }

    /// Waits for its end, which must be a bad one, and returns what it said.
    pub(crate) async fn failed(mut self) -> String {
        drop(self.child.stdin.take());
        let errors = self.errors().await;
        let status = self.child.wait().await.unwrap();
        assert!(!status.success(), "it went well");
        errors
    }

    /// Waits for its end, whichever that is, and returns the next line it has
    /// printed, if any.
    pub(crate) async fn last_word(mut self) -> Option<Value> {
        drop(self.child.stdin.take());
        self.child.wait().await.unwrap();
        let line = self.lines.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn errors(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text).await.ok();
        }
        text
    }
}
