//! The two ends of a sync: a directory here and one behind a guest. Both do the same
//! operations and speak the same records, one in a thread of this process.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf as _, BytesMut};
use minicbor::Decode;
use minicbor::bytes::ByteVec;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use vestal_tree::{OpenTree, TreeError, TreeSink};
use vestal_wire::limits::{MAX_DATA, MAX_MESSAGE};
use vestal_wire::{CallReply, CallRequest, FaultCode, FileCall, FileOp, FileReply, Stream, TreeOp};

use super::run::SyncError;
use crate::client::{CallError, Channel, ChannelMessage, Connection, StreamSender, Violation};

/// Pieces on their way to or from the thread that works here.
const QUEUED: usize = 16;

/// Most bytes of the records of an operation, contents of files not counted.
const MAX_RECORDS: usize = if cfg!(test) { 64 << 20 } else { 1 << 30 };

/// Most bytes of a reason that are kept.
const MAX_REASON: usize = 300;

/// Returns what is kept of a reason that the other side gives.
pub(super) fn shortened(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(MAX_REASON));
    reason.shrink_to_fit();
    reason
}

/// One of the two directories.
#[derive(Debug, Clone)]
pub(crate) enum TreeEnd {
    Here(Arc<OpenTree>),
    There { connection: Connection, path: ByteVec },
}

/// What is sent to an operation.
pub(crate) enum TreeInput {
    Here(mpsc::Sender<Vec<u8>>),
    There(StreamSender),
}

/// What comes from an operation.
pub(crate) struct TreeOutput {
    source: Source,
    pending: BytesMut,
    is_over: bool,
    /// Bytes of records so far.
    recorded: usize,
}

enum Source {
    Here {
        pieces: mpsc::Receiver<Vec<u8>>,
        thread: JoinHandle<Result<(), TreeError>>,
        _cancel: CancelOnDrop,
    },
    There(Channel),
}

/// Ends the thread's work when nobody waits for it any more.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl TreeEnd {
    /// Returns what is compared at this end, for people.
    pub(super) fn compared(&self) -> &'static str {
        match self {
            Self::Here(_) => "files here, to compare",
            Self::There { .. } => "files in the sandbox, to compare",
        }
    }

    /// Begins an operation.
    pub(crate) async fn open(&self, op: TreeOp) -> Result<(TreeInput, TreeOutput), SyncError> {
        let (input, source) = match self {
            Self::Here(root) => {
                let (input, receiver) = mpsc::channel(QUEUED);
                let (sender, pieces) = mpsc::channel(QUEUED);
                let cancelled = Arc::new(AtomicBool::new(false));
                let (root, stop) = (Arc::clone(root), Arc::clone(&cancelled));
                let thread = tokio::task::spawn_blocking(move || {
                    let input = FromChannel { receiver, piece: Vec::new(), at: 0 };
                    vestal_tree::serve(&root, &op, input, &mut IntoChannel(sender), &stop)
                });
                let source = Source::Here { pieces, thread, _cancel: CancelOnDrop(cancelled) };
                (TreeInput::Here(input), source)
            }
            Self::There { connection, path } => {
                let op = FileOp::Tree { path: path.clone(), op };
                let call = FileCall { session: None, start_dir: None, op };
                let channel = connection.channel(CallRequest::File(call)).await?;
                (TreeInput::There(channel.outgoing(Stream::Input)), Source::There(channel))
            }
        };
        Ok((input, TreeOutput { source, pending: BytesMut::new(), is_over: false, recorded: 0 }))
    }
}

impl TreeInput {
    /// Sends bytes. Returns whether they are wanted; if not, the output says why.
    pub(crate) async fn write(&mut self, bytes: Vec<u8>) -> bool {
        match self {
            Self::Here(sender) => sender.send(bytes).await.is_ok(),
            Self::There(sender) => sender.write(&bytes).await,
        }
    }

    /// Says that nothing more comes.
    pub(crate) fn end(self) {
        match self {
            Self::Here(sender) => drop(sender),
            Self::There(sender) => sender.end(),
        }
    }
}

impl TreeOutput {
    /// Returns the next record; nothing when the operation has ended well.
    pub(crate) async fn record<T>(&mut self) -> Result<Option<T>, SyncError>
    where
        T: for<'b> Decode<'b, ()>,
    {
        let Some(bytes) = self.framed(MAX_MESSAGE).await? else { return Ok(None) };
        self.recorded += bytes.len();
        if self.recorded > MAX_RECORDS {
            return Err(self.violated("records without end"));
        }
        match vestal_wire::decode(&bytes) {
            Ok(record) => Ok(Some(record)),
            Err(_) => Err(self.violated("a record of a tree that cannot be one")),
        }
    }

    /// Returns the next piece of a content; nothing at its end.
    pub(crate) async fn piece(&mut self) -> Result<Option<Vec<u8>>, SyncError> {
        match self.framed(MAX_DATA).await? {
            Some(piece) => Ok((!piece.is_empty()).then_some(piece)),
            None => Err(self.violated("a content without an end")),
        }
    }

    /// Cuts off a guest whose answer cannot be true.
    pub(crate) fn violated(&self, claim: &'static str) -> SyncError {
        match &self.source {
            Source::There(channel) => channel.violate(Violation::Claim(claim)).into(),
            Source::Here { .. } => SyncError::Here(io::Error::other(claim)),
        }
    }

    async fn framed(&mut self, most: usize) -> Result<Option<Vec<u8>>, SyncError> {
        if !self.fill(4).await? {
            return if self.pending.is_empty() {
                Ok(None)
            } else {
                Err(self.violated("a record that breaks off"))
            };
        }
        let length = self.pending.get_u32_le() as usize;
        if length > most {
            return Err(self.violated("a record that is too long"));
        }
        if !self.fill(length).await? {
            return Err(self.violated("a record that breaks off"));
        }
        Ok(Some(self.pending.split_to(length).to_vec()))
    }

    /// Waits until so many bytes are there. Returns whether they are.
    async fn fill(&mut self, wanted: usize) -> Result<bool, SyncError> {
        while self.pending.len() < wanted {
            if self.is_over {
                return Ok(false);
            }
            match &mut self.source {
                Source::Here { pieces, thread, .. } => match pieces.recv().await {
                    Some(piece) => self.pending.extend_from_slice(&piece),
                    None => {
                        self.is_over = true;
                        let ended = thread.await.map_err(io::Error::other);
                        ended.map_err(SyncError::Here)?.map_err(SyncError::Tree)?;
                    }
                },
                Source::There(channel) => match channel.recv().await {
                    Ok(Some(ChannelMessage::Data(Stream::Content, bytes))) => {
                        self.pending.extend_from_slice(&bytes);
                    }
                    Ok(Some(ChannelMessage::Reply(CallReply::File(FileReply::Done)))) => {
                        self.is_over = true;
                    }
                    Ok(Some(ChannelMessage::Data(..) | ChannelMessage::Reply(_))) => {
                        return Err(channel.violate(Violation::WrongReply).into());
                    }
                    Ok(Some(ChannelMessage::End(_) | ChannelMessage::Event(_))) => {}
                    Ok(None) => self.is_over = true,
                    Err(CallError::Fault(fault)) if fault.code == FaultCode::Unsupported => {
                        return Err(SyncError::OldGuest);
                    }
                    Err(error) => return Err(error.into()),
                },
            }
        }
        Ok(true)
    }
}

struct FromChannel {
    receiver: mpsc::Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
}

impl Read for FromChannel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            match self.receiver.blocking_recv() {
                Some(piece) => (self.piece, self.at) = (piece, 0),
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.piece.len() - self.at);
        buffer[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

struct IntoChannel(mpsc::Sender<Vec<u8>>);

impl TreeSink for IntoChannel {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.blocking_send(bytes.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}
