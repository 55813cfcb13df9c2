//! The task behind a connection: reads frames and hands them to their channels.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;
use vestal_wire::{HEADER_LEN, Header, Kind};

use super::connection::Shared;
use super::error::{Closed, Violation};
use super::inbox::JOIN_BELOW;

/// Room for a read, to begin with and once the guest has much to say.
const SMALL_READ: usize = 8 << 10;
const LARGE_READ: usize = 128 << 10;

/// How long answers are still read after the transport refused to take more,
/// and how long it is given to take the rest when the connection is released.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Reads and writes until the connection is over, for whatever reason.
pub(crate) async fn drive(reader: impl AsyncRead + Unpin, guard: CloseOnDrop) {
    let shared = &guard.0;
    let mut reading = pin!(read_frames(reader, shared));
    let reason = tokio::select! {
        reason = &mut reading => reason,
        reason = poll_fn(|context| shared.outbox.poll_drive(context)) => match reason {
            Closed::Io { .. } | Closed::Vanished => {
                // A guest that ends may have answered before it stopped reading.
                timeout(LAST_WORDS, reading).await.unwrap_or(reason)
            }
            reason => reason,
        },
        reason = shared.closed() => {
            let drained = poll_fn(|context| shared.outbox.poll_drained(context));
            if timeout(LAST_WORDS, drained).await.is_err() {
                tracing::debug!("the guest did not take all that was sent before the end");
            }
            reason
        }
    };
    shared.close(&reason);
}

/// Ends the connection together with its driver, also when the runtime drops
/// the driver before it has run at all.
pub(crate) struct CloseOnDrop(pub(crate) Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close(&Closed::Vanished);
    }
}

async fn read_frames(mut reader: impl AsyncRead + Unpin, shared: &Shared) -> Closed {
    let mut buffer = BytesMut::new();
    let mut room = SMALL_READ;
    loop {
        let missing = match take_frames(&mut buffer, shared) {
            Ok(missing) => missing,
            Err(violation) => return violation.into(),
        };
        if buffer.capacity() > 2 * LARGE_READ && buffer.len() + missing <= LARGE_READ {
            // Bytes handed on keep the whole block alive: don't let one large
            // message make every later piece of data that expensive.
            buffer = BytesMut::from(&buffer[..]);
        }
        buffer.reserve(missing.max(room));
        match reader.read_buf(&mut buffer).await {
            Ok(0) => return Closed::Vanished,
            Ok(count) if count >= SMALL_READ => room = LARGE_READ,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Closed::from(&error),
        }
    }
}

/// Takes every whole frame off the buffer. Returns how many bytes the next one
/// still lacks.
fn take_frames(buffer: &mut BytesMut, shared: &Shared) -> Result<usize, Violation> {
    loop {
        let Some(header) = buffer.first_chunk::<HEADER_LEN>() else {
            return Ok(HEADER_LEN - buffer.len());
        };
        let header =
            Header::from_bytes(*header).map_err(|error| Violation::Frame(error.to_string()))?;
        let len = header.len as usize;
        let missing = (HEADER_LEN + len).saturating_sub(buffer.len());
        if missing > 0 {
            return Ok(missing);
        }
        buffer.advance(HEADER_LEN);
        if header.kind == Kind::Data && len >= JOIN_BELOW {
            find(header, shared)?.on_data(header.stream, buffer.split_to(len))?;
        } else {
            dispatch(header, &buffer[..len], shared)?;
            buffer.advance(len);
        }
    }
}

fn dispatch(header: Header, payload: &[u8], shared: &Shared) -> Result<(), Violation> {
    match header.kind {
        Kind::Data => find(header, shared)?.on_data(header.stream, BytesMut::from(payload)),
        Kind::End => find(header, shared)?.on_end(header.stream),
        Kind::Event => find(header, shared)?.on_event(payload),
        Kind::Reply => {
            // The number is free only once the channel knows that it is over.
            find(header, shared)?.on_reply(payload)?;
            shared.forget(header.channel);
            Ok(())
        }
        Kind::Credit => {
            let bytes: [u8; 4] = payload
                .try_into()
                .map_err(|_| Violation::Frame("credit without a number".to_owned()))?;
            // Credit that crossed with the end of its channel harms nobody.
            match shared.find(header.channel) {
                Some(core) => core.on_credit(header.stream, u32::from_le_bytes(bytes)),
                None => Ok(()),
            }
        }
        Kind::Hello | Kind::Welcome | Kind::Open | Kind::Cancel => {
            Err(Violation::UnexpectedKind(header.kind))
        }
    }
}

fn find(header: Header, shared: &Shared) -> Result<Arc<super::channel::ChannelCore>, Violation> {
    shared
        .find(header.channel)
        .ok_or(Violation::UnknownChannel { channel: header.channel, kind: header.kind })
}
