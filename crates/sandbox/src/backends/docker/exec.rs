//! A byte stream to the guest through the engine.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bollard::container::LogOutput;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use bytes::{Buf as _, Bytes};
use futures_util::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::api::{Client, Fault, fault};
use super::plan::{GUEST_FILE, IO_DIR};
use crate::backend::BackendError;

type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;

/// The standard streams of a program in a container.
pub(super) struct ExecStream {
    output: Output,
    input: Pin<Box<dyn AsyncWrite + Send>>,
    /// What has come and was not read yet.
    unread: Bytes,
}

/// Starts the program that leads to the guest's socket, in the container.
pub(super) async fn connect(
    client: &Client,
    container: &str,
    instance: &str,
) -> Result<ExecStream, BackendError> {
    let not_listening = || BackendError::NotListening { id: instance.to_owned() };
    let body = ExecConfig {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        cmd: Some([GUEST_FILE, "connect", IO_DIR].map(str::to_owned).into()),
        ..ExecConfig::default()
    };
    let refused = |error| match fault(&error) {
        // It is gone, or does not run.
        Fault::Absent | Fault::Conflict => not_listening(),
        _ => client.error("run a program in the container")(error),
    };
    let exec = client.api().create_exec(container, body).await.map_err(refused)?;
    let options = StartExecOptions { detach: false, tty: false, output_capacity: Some(64 << 10) };
    match client.api().start_exec(&exec.id, Some(options)).await.map_err(refused)? {
        StartExecResults::Attached { output, input } => {
            Ok(ExecStream { output, input, unread: Bytes::new() })
        }
        StartExecResults::Detached => Err(not_listening()),
    }
}

impl AsyncRead for ExecStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.unread.is_empty() {
                let take = self.unread.len().min(buffer.remaining());
                buffer.put_slice(&self.unread[..take]);
                self.unread.advance(take);
                return Poll::Ready(Ok(()));
            }
            match self.output.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Err(io::Error::other(error)));
                }
                Poll::Ready(Some(Ok(LogOutput::StdOut { message }))) => self.unread = message,
                Poll::Ready(Some(Ok(other))) => {
                    tracing::debug!(said = %other, "from the container");
                }
            }
        }
    }
}

impl AsyncWrite for ExecStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.input.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.as_mut().poll_shutdown(context)
    }
}
