//! What a container is made of: from settings and facts to the engine's terms,
//! without asking anyone.

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

pub(in crate::backends::docker) use crate::backends::layout::{
    BOOT_DIR, GUEST_FILE, IO_DIR, STATE_DIR, WORKSPACE,
};
pub(in crate::backends::docker) use blueprint::{Blueprint, JobUser, Plan, Source, Ulimits, plan};
pub(in crate::backends::docker) use labels::{Marks, container_name, label, name_of_marks};
pub(in crate::backends::docker) use limits::{read_back, vet};
