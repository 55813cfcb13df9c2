//! `terminal.native_rootfs`: a system for sandboxes that is not the host's.
//!
//! A directory is used where it is; nothing is ever written to it. An archive is
//! unpacked once per state of its file, beside others that the sandboxes of a
//! home share.

mod archive;
mod check;
mod entry;
mod provide;
mod prune;
mod unpack;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unpack_tests;

pub(in crate::backends::native) use check::check;
pub(in crate::backends::native) use provide::{Rootfs, provide};
pub(in crate::backends::native) use prune::prune;
