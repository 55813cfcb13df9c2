//! The picture of `/etc`: what of the host's sandboxes see.
//!
//! An allow-list of files that everyone on the host can read, with accounts that
//! name no people. A picture is made once per state of the host, by rename, and
//! shared by the sandboxes of a home; nothing is ever changed in one.

mod allowed;
mod picture;
mod prune;
mod survey;

#[cfg(test)]
mod tests;

pub(in crate::backends::native) use picture::{Picture, provide};
pub(in crate::backends::native) use prune::prune;
pub(in crate::backends::native) use survey::APT_ALONE;
