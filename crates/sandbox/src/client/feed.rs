//! Sending a whole source of bytes on a stream.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};
use vestal_wire::limits::MAX_DATA;
use vestal_wire::{Reply, Stream};

use super::channel::{Channel, Outgoing};
use super::error::CallError;

/// Where bytes for a guest come from.
pub(crate) enum Source<'a> {
    Bytes(&'a [u8]),
    Reader(&'a mut (dyn AsyncRead + Send + Unpin)),
}

/// A request with a stream that did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FeedError {
    #[error(transparent)]
    Call(#[from] CallError),
    /// The source failed; the guest was not told that the stream is complete.
    #[error(transparent)]
    Source(io::Error),
}

/// Sends all that the source has and then the stream's end. Stops early, without
/// an error, when the guest wants no more. When the source fails the end is not
/// sent, so that a part is never taken for the whole.
pub(crate) async fn feed(mut outgoing: Outgoing, source: Source<'_>) -> io::Result<()> {
    let complete = match source {
        Source::Bytes(bytes) => outgoing.write(bytes).await,
        Source::Reader(reader) => copy(&mut outgoing, reader).await?,
    };
    if complete {
        outgoing.end();
    }
    Ok(())
}

/// Feeds the channel's input while waiting for its reply.
pub(crate) async fn feed_for_reply(
    channel: &mut Channel,
    source: Source<'_>,
) -> Result<Reply, FeedError> {
    let feeding = feed(channel.outgoing(Stream::Input), source);
    tokio::select! {
        biased;
        fed = feeding => fed.map_err(FeedError::Source)?,
        reply = channel.reply() => return Ok(reply?),
    }
    Ok(channel.reply().await?)
}

async fn copy(
    outgoing: &mut Outgoing,
    reader: &mut (dyn AsyncRead + Send + Unpin),
) -> io::Result<bool> {
    let mut buffer = vec![0; MAX_DATA];
    loop {
        match reader.read(&mut buffer).await {
            Ok(0) => return Ok(true),
            Ok(count) => {
                if !outgoing.write(&buffer[..count]).await {
                    return Ok(false);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
