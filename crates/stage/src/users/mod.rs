//! Users of a sandbox and who they are on the host.

mod check;
mod maps;
mod namespace;
mod owner;

pub(crate) use check::check;
pub(crate) use maps::write;
pub(crate) use namespace::make;
pub(crate) use owner::{Owner, become_root, outside};
