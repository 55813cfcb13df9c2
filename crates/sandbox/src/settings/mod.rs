//! The settings of sandboxes: the keys, their types, and what several of them say together.
//!
//! A backend declares the settings that only it has in its own directory, and is in the registry
//! with them.

mod common;
mod environment;
pub mod secrets;
#[cfg(test)]
pub(crate) mod testing;
mod types;
mod volumes;

use vestal_config::Schema;

use crate::backends::REGISTRY;
pub use crate::backends::docker::settings::{
    Device, DockerBinary, DockerTransport, ENGINE_VARIABLES, ExtraArgs, Gpus, ImageName, MountFlag,
    MountKind, PortMapping, Protocol, Seccomp, SecurityOption, Ulimit,
};
pub use crate::backends::native::settings::RootfsChoice;
pub(crate) use common::weakening;
pub use environment::{CommandEnvironment, Handing, SandboxSettings};
pub use types::{BackendChoice, Isolation, OnConfigChange, SandboxesDir, StartDir};
pub use volumes::{HostPath, Propagation, Relabel, Volume, VolumeSource, Volumes};
pub(crate) use volumes::{gives_away, is_volume_name, mount_target};

/// The keys of sandboxes, those of the backends included.
pub mod keys {
    pub use super::common::*;
    pub use crate::backends::docker::settings::{
        DOCKER_BINARY, DOCKER_EXTRA_ARGS, DOCKER_IMAGE, DOCKER_KEEP_ENTRYPOINT,
        DOCKER_RUN_AS_HOST_USER, DOCKER_TRANSPORT,
    };
    pub use crate::backends::native::settings::NATIVE_ROOTFS;
}

/// Returns the schema of sandboxes: what all of them have, and what each backend declares.
pub fn schema() -> Schema {
    let backends = REGISTRY.iter().filter_map(|backend| backend.settings);
    Schema::new(std::iter::once(&common::GROUP).chain(backends))
}
