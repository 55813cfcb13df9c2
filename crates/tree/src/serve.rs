//! An operation on a tree, from the records of one stream to those of another.

use std::io::{self, Read};
use std::sync::atomic::AtomicBool;

use vestal_wire::tree::{
    KnownDirectory, ReadHead, RecordReader, TreeChange, TreePath, framed, framed_bytes,
};
use vestal_wire::{EncodeError, TreeOp};

use crate::ignore::IgnoreRules;
use crate::read::each_piece;
use crate::root::{OpenTree, TreeError};
use crate::scan::Known;

/// Bytes that are sent at once.
const BATCH: usize = 32 << 10;

/// Most directories that are taken as known.
const MAX_KNOWN: usize = 1 << 20;

/// Receives what an operation sends.
pub trait TreeSink {
    /// Sends bytes, waiting until the reader has room for them. An error means that
    /// nobody listens any more.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// Does what is asked of a tree. Blocks, and stops soon after `cancelled` is set.
pub fn serve(
    root: &OpenTree,
    op: &TreeOp,
    input: impl Read,
    output: &mut dyn TreeSink,
    cancelled: &AtomicBool,
) -> Result<(), TreeError> {
    let mut input = RecordReader::new(input);
    let mut output = Batched { sink: output, pending: Vec::new() };
    match op {
        TreeOp::Scan { ignore } => {
            let mut known = Known::new();
            while let Some(KnownDirectory { path, digest }) =
                input.record().map_err(TreeError::Stream)?
            {
                if known.len() < MAX_KNOWN {
                    known.insert(path.into(), digest);
                }
            }
            let mut rules = IgnoreRules::default();
            rules.add(ignore);
            output.record(framed(&root.describe()?))?;
            root.scan(&rules, &known, cancelled, &mut |listing| output.record(framed(&listing)))?;
        }
        TreeOp::Hash => {
            while let Some(wanted) = input.record::<TreePath>().map_err(TreeError::Stream)? {
                let hashed = root.hash(&wanted, cancelled)?;
                output.record(framed(&hashed))?;
            }
        }
        TreeOp::Read => {
            while let Some(wanted) = input.record::<TreePath>().map_err(TreeError::Stream)? {
                let (mut file, _) = match root.file(&wanted.path) {
                    Ok(opened) => opened,
                    Err(error) => {
                        let head = ReadHead { error: Some(error.to_string()) };
                        output.record(framed(&head))?;
                        continue;
                    }
                };
                output.record(framed(&ReadHead { error: None }))?;
                let read = each_piece(&mut file, &wanted, cancelled, &mut |piece| {
                    output.record(Ok(framed_bytes(piece)))
                });
                match read.map_err(|error| root.read_error(&wanted.path, error)) {
                    // What is missing is noticed by its hash.
                    Ok(()) | Err(TreeError::Io { .. }) => output.record(Ok(framed_bytes(b"")))?,
                    Err(error) => return Err(error),
                }
            }
        }
        TreeOp::Change => {
            let mut durability = crate::change::WriteDurability::default();
            while let Some(change) = input.record::<TreeChange>().map_err(TreeError::Stream)? {
                let outcome = root.change(&change, &mut input, &mut durability, cancelled)?;
                output.record(framed(&outcome))?;
            }
            durability.settle(root)?;
        }
    }
    output.flush()
}

/// Sends small records together.
struct Batched<'s> {
    sink: &'s mut dyn TreeSink,
    pending: Vec<u8>,
}

impl Batched<'_> {
    fn record(&mut self, bytes: Result<Vec<u8>, EncodeError>) -> Result<(), TreeError> {
        let bytes = bytes.map_err(|error| TreeError::Stream(io::Error::other(error)))?;
        self.pending.extend_from_slice(&bytes);
        if self.pending.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), TreeError> {
        for part in self.pending.chunks(vestal_wire::limits::MAX_DATA) {
            self.sink.send(part).map_err(TreeError::Stream)?;
        }
        self.pending.clear();
        Ok(())
    }
}
