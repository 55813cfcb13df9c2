//! What a container is made of: from settings and facts to the engine's terms,
//! without asking anyone.

mod blueprint;
mod body;
mod capabilities;
mod extra_args;
mod labels;
mod limits;
mod name;
mod places;
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
pub(in crate::backends::docker) use blueprint::{Blueprint, JobUser, Plan, Source, Ulimits};
pub(in crate::backends::docker) use body::plan;
pub(in crate::backends::docker) use labels::{Marks, label};
pub(in crate::backends::docker) use limits::{read_back, vet};
pub(in crate::backends::docker) use name::{container_name, name_of_marks};
