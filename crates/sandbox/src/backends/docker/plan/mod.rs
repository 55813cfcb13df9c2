//! The description of a container: settings and facts become the engine's request,
//! without I/O.

mod blueprint;
mod extra_args;
mod labels;
mod limits;
mod mounts;
mod process;

#[cfg(test)]
mod copy_tests;
#[cfg(test)]
mod extra_args_tests;
#[cfg(test)]
mod label_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(in crate::backends::docker) use crate::backends::own_system::{
    BOOT_DIR, GUEST_FILE, IO_DIR, STATE_DIR, WORKSPACE,
};
pub(in crate::backends::docker) use blueprint::{
    Blueprint, ImageUser, MountSource, PlannedContainer, Ulimits, plan,
};
pub(in crate::backends::docker) use labels::{
    ContainerLabels, container_name, label, name_from_labels,
};
pub(in crate::backends::docker) use limits::{check_limits, limits_not_applied};
