//! A command over there with its streams.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
    ReadBuf,
};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use vestal_wire::machine::{MachineReply, announced};

use super::failure::{Failure, classify};
use super::login::HostLogin;
use super::script::{Nonce, Reported};
use crate::backends::docker::one_line;

/// Most of what a login shell may print before the answer.
const MAX_NOISE: u64 = 256 << 10;

/// Longest line of a report.
const MAX_LINE: usize = 4096;

/// Most of `ssh`'s standard error that is kept.
const MAX_STDERR: usize = 8192;

/// How long `ssh` may take to exit after its output has ended, and its last words to come.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The code of `ssh` when it is `ssh` that failed.
const SSH_FAILED: i32 = 255;

/// A command over there.
#[derive(Debug)]
pub(super) struct SshSession {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    stderr: Option<SshStderr>,
}

impl SshSession {
    /// Takes over the streams of `ssh`.
    pub(super) fn of(mut child: Child) -> io::Result<Self> {
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("ssh has no pipes"));
        };
        let stderr = child.stderr.take().map(SshStderr::follow);
        let output = BufReader::with_capacity(64 << 10, output);
        Ok(Self { child, input: Some(input), output, stderr })
    }

    /// Writes to the command. That it reads no more shows in its answer.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.input
            && (input.write_all(bytes).await.is_err() || input.flush().await.is_err())
        {
            self.input = None;
        }
    }

    /// Ends the command's input.
    pub(super) fn end_input(&mut self) {
        self.input = None;
    }

    /// Reads up to the line that begins with the nonce.
    pub(super) async fn report(
        &mut self,
        login: &HostLogin,
        nonce: &Nonce,
    ) -> Result<Reported, Failure> {
        let mut noise = Vec::new();
        let mut read = 0;
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut limited = (&mut self.output).take(MAX_NOISE.saturating_sub(read) + 1);
            let count = limited.read_until(b'\n', &mut line).await.unwrap_or(0);
            read += u64::try_from(count).unwrap_or(u64::MAX);
            if read > MAX_NOISE {
                return Err(Failure::Refused {
                    problem: format!("{login} prints without end before it answers"),
                    advice: format!(
                        "see what its login shell does at its start: {} true",
                        login.by_hand()
                    ),
                });
            }
            if count == 0 {
                return Err(self.failed(login, &noise).await);
            }
            let text = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE)]);
            let rest = text.trim_end().strip_prefix(nonce.as_str());
            if let Some(reported) = rest.and_then(|rest| Reported::parse(rest.trim_start())) {
                return Ok(reported);
            }
            if noise.len() < MAX_LINE {
                noise.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// Reads a reply.
    pub(super) async fn reply(&mut self, login: &HostLogin) -> Result<MachineReply, Failure> {
        let read = async {
            let mut length = [0; 4];
            self.output.read_exact(&mut length).await?;
            let length = announced(length).map_err(io::Error::other)?;
            let mut body = vec![0; length];
            self.output.read_exact(&mut body).await?;
            vestal_wire::decode(&body).map_err(io::Error::other)
        };
        match read.await {
            Ok(reply) => Ok(reply),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.failed(login, b"").await)
            }
            Err(error) => Err(Failure::Refused {
                problem: format!("{login} answered something that is not an answer: {error}"),
                advice: "see what its login shell or a forced command does to the output of \
                         commands"
                    .to_owned(),
            }),
        }
    }

    /// Returns why a command ended without an answer.
    async fn failed(&mut self, login: &HostLogin, noise: &[u8]) -> Failure {
        self.input = None;
        let status = timeout(EXIT_TIMEOUT, self.child.wait()).await;
        let code = status.ok().and_then(Result::ok).and_then(|status| status.code());
        let stderr = match self.stderr.take() {
            Some(stderr) => stderr.text().await,
            None => String::new(),
        };
        if code == Some(SSH_FAILED) || code.is_none() {
            return classify(login, &stderr, code);
        }
        let noise = String::from_utf8_lossy(noise);
        let words = one_line(if stderr.trim().is_empty() { &noise } else { &stderr });
        let code = code.unwrap_or_default();
        Failure::Refused {
            problem: format!(
                "{login} does not run commands: its login shell ended with {code} ({words})"
            ),
            advice: format!("see what this says: {} true", login.by_hand()),
        }
    }

    /// Returns the streams, on which the connection to a guest goes on.
    pub(super) fn into_stream(self) -> Option<GuestStream> {
        let Self { child, input, output, .. } = self;
        Some(GuestStream { output, input: input?, _child: child })
    }
}

/// The connection to a guest. `ssh` ends with it.
#[derive(Debug)]
pub(super) struct GuestStream {
    output: BufReader<ChildStdout>,
    input: ChildStdin,
    _child: Child,
}

impl AsyncRead for GuestStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_read(context, buffer)
    }
}

impl AsyncWrite for GuestStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.input).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_shutdown(context)
    }
}

/// The end of what `ssh` prints on its standard error, read as it comes so that nobody waits for
/// a full pipe.
#[derive(Debug)]
pub(super) struct SshStderr {
    kept: Arc<Mutex<Vec<u8>>>,
    task: JoinHandle<()>,
}

impl SshStderr {
    /// Begins to read.
    pub(super) fn follow(mut stderr: ChildStderr) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&kept);
        let task = tokio::spawn(async move {
            let mut chunk = [0; 1024];
            while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&chunk[..count]);
                let excess = kept.len().saturating_sub(MAX_STDERR);
                kept.drain(..excess);
            }
        });
        Self { kept, task }
    }

    /// Returns what was read once the pipe is closed, or soon: the shared connection in the
    /// background may keep it open.
    pub(super) async fn text(mut self) -> String {
        timeout(EXIT_TIMEOUT / 10, &mut self.task).await.ok();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

impl Drop for SshStderr {
    fn drop(&mut self) {
        self.task.abort();
    }
}
