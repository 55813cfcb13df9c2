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
//! | `facts`, `settings`, `tier`, `plan/` | planning: what the host has, what the user wants, what is built |
//! | `etc/`, `private/`, `rootfs/`, `cache` | what sandboxes see of the host, and the cache of it |
//! | `enforce`, `cgroups`, `seccomp` | limits and system call filters |
//! | `stage`, `explain` | running the stage, and its errors |
//! | `records`, `accounts`, `resolve` | what is recorded of an instance; account files; paths inside of a root |

mod accounts;
mod backend;
mod cache;
mod cgroups;
mod copy;
mod enforce;
mod etc;
mod explain;
mod facts;
mod launch;
mod plan;
mod private;
mod probe;
mod records;
mod resolve;
mod rootfs;
mod seccomp;
pub(crate) mod settings;
mod stage;
mod tier;

pub(crate) use backend::{DECLARATION, Native};
pub(super) use cgroups::memory_kills;

/// How long to wait for a killed first process to be gone.
const END_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
