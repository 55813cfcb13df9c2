//! The settings of sandboxes: the keys, their types, and what several of them say together.
//!
//! A backend declares the settings that only it has in its own directory, and is in the registry
//! with them.

mod common;
mod credentials;
mod environment;
pub mod secrets;
#[cfg(test)]
pub(crate) mod testing;
mod types;
mod volumes;

pub use crate::backends::docker::settings::{
    Device, DockerBinary, DockerTransport, ENGINE_VARIABLES, ExtraArgs, Gpus, ImageName, MountFlag,
    MountKind, PortMapping, Protocol, Seccomp, SecurityOption, Ulimit,
};
pub use crate::backends::native::settings::RootfsChoice;
pub(crate) use common::{GROUP, weakening};
pub use credentials::{CredentialFile, CredentialFiles};
pub use environment::{CommandEnvironment, SandboxSettings, VariableForwarding};
pub use types::{BackendChoice, Isolation, OnConfigChange, SandboxesDir, StartDir};
pub use volumes::{HostPath, Propagation, Relabel, Volume, VolumeSource, Volumes};
pub(crate) use volumes::{exposes, is_volume_name, mount_target};

/// The keys of sandboxes, those of the backends included.
pub mod keys {
    pub use super::common::*;
    pub use crate::backends::apptainer::settings::{SINGULARITY_BINARY, SINGULARITY_IMAGE};
    pub use crate::backends::docker::settings::{
        DOCKER_BINARY, DOCKER_EXTRA_ARGS, DOCKER_IMAGE, DOCKER_KEEP_ENTRYPOINT,
        DOCKER_RUN_AS_HOST_USER, DOCKER_TRANSPORT,
    };
    pub use crate::backends::native::settings::NATIVE_ROOTFS;
}
