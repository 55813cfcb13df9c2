//! Backend `apptainer`: containers that Apptainer builds (or Singularity, by the same
//! commands), without a daemon, by root or by an ordinary user.
//!
//! There is no instance in Apptainer's sense: the guest is started by `apptainer exec`,
//! detached, and found again by its process. The container's own filesystem is an
//! overlay in the instance's directory.
//!
//! | file | content |
//! |---|---|
//! | `backend` | the traits |
//! | `launch` | creating and starting an instance |
//! | `plan` | the command line, the configuration and the mounts of a container (no I/O but to look) |
//! | `image` | images: files, directories, and those that are fetched or converted |
//! | `program` | the program, its version and how it is installed |
//! | `records`, `session` | what is recorded of an instance, and which processes are its |
//! | `copy` | copies of the container's own filesystem |
//! | `settings` | the settings |

mod backend;
mod copy;
mod image;
mod launch;
mod plan;
mod program;
mod records;
pub(crate) mod settings;

pub(crate) use backend::{Apptainer, DECLARATION};

/// How long to wait for killed processes to be gone.
const END_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
