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
//! files there are (`api/layers.rs`); what the image said that all began with is
//! on the containers (`origin.rs`).

mod api;
mod backend;
mod binds;
mod cache;
mod copy;
mod create;
mod errand;
mod exec;
mod facts;
mod guest_part;
mod inspect;
mod locator;
mod mounts;
mod origin;
mod ownership;
mod places;
mod plan;
mod ready;
mod remove;
mod save;
pub(crate) mod settings;
mod show;
mod strays;
mod ulimits;

use super::boot;

pub(crate) use backend::{DECLARATION, Docker};
