//! TCP ports that processes of a sandbox listen on, and connections to them through the guest.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf,
};
use tokio::sync::oneshot;
use vestal_wire::limits::{MAX_DATA, MAX_PORTS};
use vestal_wire::{CallReply, CallRequest, ListeningPort, Stream};

use crate::client::{CallError, Channel, ChannelMessage, Connection, Violation};

/// How long a guest may take to look.
const LOOK_WITHIN: Duration = Duration::from_secs(10);

/// Longest text about a port.
const MAX_TEXT: usize = 256;

/// Returns the TCP ports that processes of jobs listen on, by number. Where a sandbox shares the
/// network of the machine, those of others are not among them. A guest from before 1.1 of the
/// protocol refuses it ([`crate::FaultCode::Unsupported`]).
#[boxed]
pub async fn listening_ports(connection: &Connection) -> Result<Vec<ListeningPort>, CallError> {
    match connection.call_within(CallRequest::Ports, LOOK_WITHIN).await? {
        CallReply::Ports(ports) if is_possible(&ports) => Ok(ports),
        CallReply::Ports(_) => Err(connection.violate(Violation::Claim("ports that cannot be"))),
        _ => Err(connection.wrong_reply()),
    }
}

fn is_possible(ports: &[ListeningPort]) -> bool {
    let is_short = |port: &ListeningPort| port.address.len().max(port.program.len()) <= MAX_TEXT;
    ports.len() <= MAX_PORTS && ports.iter().all(is_short)
}

/// A connection to a port of a sandbox. Dropping it closes it.
#[derive(Debug)]
pub struct PortStream {
    near: DuplexStream,
    ended: oneshot::Receiver<CallError>,
}

/// Connects to a port that a process of a job listens on. Any other port is refused; that, and
/// whatever else fails, ends the stream, and [`PortStream::failure`] says why.
#[boxed]
pub async fn connect_port(connection: &Connection, port: u16) -> Result<PortStream, CallError> {
    let channel = connection.channel(CallRequest::Connect { port }).await?;
    let (near, far) = tokio::io::duplex(MAX_DATA);
    let (end, ended) = oneshot::channel();
    tokio::spawn(async move {
        if let Err(error) = copy(channel, far).await {
            // Nobody needs the result if the stream was dropped.
            end.send(error).ok();
        }
    });
    Ok(PortStream { near, ended })
}

/// Copies in both directions until the process or the holder of the near end closes it.
async fn copy(mut channel: Channel, far: DuplexStream) -> Result<(), CallError> {
    let mut outgoing = channel.outgoing(Stream::Input);
    let (mut from_here, mut to_here) = tokio::io::split(far);
    let send = async {
        let mut buffer = vec![0; MAX_DATA];
        loop {
            match from_here.read(&mut buffer).await {
                // The near end was dropped; one that only stops to write looks the same.
                Ok(0) | Err(_) => return NearEnd::Gone,
                Ok(count) => {
                    if !outgoing.write(&buffer[..count]).await {
                        return NearEnd::Unheard;
                    }
                }
            }
        }
    };
    let receive = async {
        loop {
            match channel.recv().await? {
                Some(ChannelMessage::Data(Stream::Content, bytes)) => {
                    // The near end is gone: dropping the channel tells the guest.
                    if to_here.write_all(&bytes).await.is_err() {
                        return Ok(());
                    }
                }
                Some(ChannelMessage::Reply(_)) | None => return Ok(()),
                Some(_) => {}
            }
        }
    };
    tokio::pin!(send, receive);
    tokio::select! {
        biased;
        received = &mut receive => received,
        end = &mut send => match end {
            NearEnd::Gone => Ok(()),
            NearEnd::Unheard => receive.await,
        },
    }
}

/// Why nothing more is sent to a port.
enum NearEnd {
    /// Nobody is there to send.
    Gone,
    /// The port takes no more; it may still have something to say.
    Unheard,
}

impl PortStream {
    /// Returns why the connection failed, once it has ended; nothing if it was closed in order.
    #[boxed]
    pub async fn failure(self) -> Option<CallError> {
        let Self { near, ended } = self;
        drop(near);
        ended.await.ok()
    }
}

impl AsyncRead for PortStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.near).poll_read(context, buf)
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.near).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.near).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.near).poll_shutdown(context)
    }
}
