//! Output of jobs in files of bounded size.
//!
//! The first quarter and the last three quarters of the allowed bytes of each stream
//! are kept, and can be read by offset while the job runs and afterwards. Omitted
//! bytes are counted exactly. A job without output has no files.

mod ring;
mod stream;

pub(crate) use stream::{JobLog, LogPiece, LogStream, delete_directory};
