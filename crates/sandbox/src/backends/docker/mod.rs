//! Backend `docker`: a container per sandbox, on Docker or Podman, through the
//! engine's API.
//!
//! An instance is a container whose first process is the guest. If the engine sees
//! the files of this host, the guest's program, socket and state and the sandbox's
//! files are directories of the host, and commands go straight to the socket; the
//! engine is asked only when that fails. Otherwise they are volumes, and the engine
//! runs `guest connect` in the container to reach the guest.
//!
//! | files | concept |
//! |---|---|
//! | `api/` | the engine: which one, how it is reached, its images, its errors |
//! | `plan/` | settings and facts to a container's description, without I/O |
//! | `prepare.rs`, `helper.rs` | facts about image and engine; helper containers |
//! | `create.rs`, `lifecycle.rs` | creating, starting, ending, removing containers |
//! | `guest.rs` | the guest's settings and the ways to reach it |
//! | `identity.rs`, `inspect.rs` | whose a container is; finding and inspecting |
//! | `storage.rs`, `mounts.rs`, `files.rs` | the sandbox's files; host mounts; copies |
//! | `images/` | images made of containers: snapshots, forks, orphans |

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
pub(crate) mod settings;
mod storage;

use super::boot;

// What another backend that runs programs of the user needs as well.
pub(super) use api::{EngineDialer, find_program, make_private, one_line, private_dir};
pub(crate) use backend::{DECLARATION, Docker};
pub(super) use backend::{describe, spec};
