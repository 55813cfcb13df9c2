//! Users of a sandbox and who they are on the host.

mod check;
mod limits;
mod maps;
mod namespace;
mod owner;

pub(crate) use check::check;
pub(crate) use limits::{limit_namespace, limit_process};
pub(crate) use maps::write;
pub(crate) use namespace::{descend, make};
pub(crate) use owner::{Owner, become_owner, become_root, groups_to_ping, outside};
