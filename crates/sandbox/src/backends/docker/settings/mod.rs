//! The settings of containers: their keys and types, and all that shape one container.

mod container;
mod devices;
mod extra_args;
mod flags;
mod image;
mod keys;
mod mounts;
mod values;

#[cfg(test)]
pub(in crate::backends::docker) use container::HostUser;
pub(in crate::backends::docker) use container::{DockerSettings, tightening};
pub use devices::{Device, Gpus, Ulimit};
pub use extra_args::ExtraArgs;
pub use image::{DockerBinary, ImageName};
pub(crate) use keys::GROUP;
pub use keys::{
    DOCKER_BINARY, DOCKER_EXTRA_ARGS, DOCKER_IMAGE, DOCKER_KEEP_ENTRYPOINT,
    DOCKER_RUN_AS_HOST_USER, DOCKER_TRANSPORT, DockerTransport, ENGINE_VARIABLES,
};
pub use mounts::{MountFlag, MountKind};
pub use values::{PortMapping, Protocol, Seccomp, SecurityOption};
