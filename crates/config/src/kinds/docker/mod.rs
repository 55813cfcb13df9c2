//! What shapes a container: its image, what is mounted, and words for the engine.

mod binary;
mod devices;
mod extra_args;
mod flags;
mod image;
mod mounts;
mod paths;
mod ports;
mod security;
mod sizes;
mod volumes;
mod weakens;
mod words;

pub use binary::DockerBinary;
pub use devices::{Device, Gpus, Ulimit};
pub use extra_args::ExtraArgs;
pub use image::ImageName;
pub use mounts::{Mount, MountKind};
pub use paths::{HostPath, Propagation};
pub use ports::{PortMapping, Protocol};
pub use security::{Seccomp, SecurityOption};
pub use volumes::{Relabel, Volume, VolumeSource, Volumes};

pub(super) use sizes::scaled;

#[cfg(test)]
#[path = "extra_args_tests.rs"]
mod extra_args_tests;
#[cfg(test)]
#[path = "image_tests.rs"]
mod image_tests;
#[cfg(test)]
#[path = "volumes_tests.rs"]
mod volumes_tests;
