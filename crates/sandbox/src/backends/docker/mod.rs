//! Backend `docker`: a container per sandbox, on Docker or Podman, through the
//! engine's API.
//!
//! An instance is a container whose first process is the guest. Where engine
//! and program share a filesystem, the guest's program, socket and state and
//! the sandbox's files are directories of the host, and commands go straight to
//! the socket: the engine is asked only when that fails. Elsewhere they are
//! volumes, and a stream of the engine's leads to the guest.
//!
//! What has to be done to files of an image or of a sandbox is done from
//! inside, by a container made for that errand.
//!
//! Copies of a container's own filesystem are images that say nothing but what
//! files there are (`images/commit.rs`); what the image said that all began with is
//! on the containers (`images/snapshot.rs`).

mod api;
mod backend;
mod create;
mod files;
mod guest;
mod helper;
mod identity;
mod images;
mod inspect;
mod lifecycle;
mod mounts;
mod plan;
mod prepare;
mod settings;
mod storage;

use super::boot;

pub(crate) use backend::{DECLARATION, Docker};
