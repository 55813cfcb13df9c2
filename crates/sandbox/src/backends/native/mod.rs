//! Backend `native`: a system of its own per sandbox, made of namespaces of the
//! kernel, without an engine, an image or root.
//!
//! What a sandbox is made of is decided here, as a value: facts about the host
//! and settings go in, a [`vestal_wire::Enclosure`] comes out. The stage, a
//! program of its own, builds it and decides nothing; the guest becomes its
//! first process.

mod accounts;
mod backend;
mod cgroups;
mod choose;
mod copy;
mod end;
mod enforce;
mod erase;
mod etc;
mod explain;
mod facts;
mod filters;
mod identity;
mod inside;
mod keep;
mod label;
mod launch;
mod locator;
mod make_dirs;
mod numbers;
mod plan;
mod private;
mod report;
mod rootfs;
mod said;
pub(crate) mod settings;
mod shared;
mod stage;
mod tier;
mod trial;

pub(crate) use backend::{DECLARATION, Native};
pub(super) use cgroups::memory_kills;

/// How long a killed first process may take to be gone.
const END_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
