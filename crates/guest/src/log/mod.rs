//! Output of jobs, spooled to bounded files.
//!
//! Of each stream the first quarter and the last three quarters of the bytes
//! allowed are kept, readable by offset while the job runs and afterwards. What
//! is left out is counted exactly. A job without output has no files.

mod holes;
mod job;
mod ring;
mod stream;

#[cfg(test)]
mod stream_tests;

pub(crate) use job::{JobLog, LogStream, delete_directory};
pub(crate) use stream::Piece;
