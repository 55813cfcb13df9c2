//! Backend `native`: sandboxes made of Linux namespaces, without an engine, an image or
//! root.
//!
//! The sandbox is planned here as a value: facts about the host and settings go in, a
//! [`vestal_wire::Enclosure`] comes out. The stage, a separate program, builds it without
//! decisions of its own, and the guest becomes its first process.
//!
//! | file | content |
//! |---|---|
//! | `backend`, `launch`, `probe`, `copy` | the operations: the trait, creating and starting, probing, copying |
//! | `settings`, `tier`, `plan/` | planning: what the user wants, what is built; facts about the host are the stage's library |
//! | `etc`, `private/`, `rootfs/`, `cache` | what sandboxes see of the host, and the cache of it |
//! | `enforce`, `cgroups`, `seccomp` | limits and system call filters |
//! | `stage`, `explain` | running the stage, and its errors |
//! | `records` | what is recorded of an instance |
//! | `elsewhere` | sandboxes of namespaces on another machine: planned here, built there |

mod backend;
mod cache;
mod cgroups;
mod copy;
pub(in crate::backends) mod elsewhere;
mod enforce;
mod etc;
mod explain;
mod launch;
mod plan;
mod private;
mod probe;
mod records;
mod rootfs;
mod seccomp;
pub(crate) mod settings;
mod stage;
mod tier;

use vestal_stage::survey::{facts, resolve};

pub(super) use backend::all_possible_users;
pub(crate) use backend::{DECLARATION, Native};
pub(super) use cgroups::{join_file, memory_kills, remove as remove_groups};
pub(super) use enforce::{Enforced, LimitMechanism};
pub(super) use plan::HostDirs;
pub(super) use probe::limits_note;
pub(super) use seccomp::filters;
pub(super) use stage::{empty_as_root, install, remove_tree_as_root};
pub(super) use vestal_stage::survey::etc::HOSTNAME;

/// How long to wait for a killed first process to be gone.
const END_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
