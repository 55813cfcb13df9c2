//! What a native sandbox is made of: from facts and settings to what the stage
//! is told, without changing anything.

mod capabilities;
mod enclosure;
mod etc;
mod input;
mod layout;
mod mounts;
mod places;
mod purpose;
mod sources;
mod system;
mod user_limits;
mod users;

#[cfg(test)]
mod mounts_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(in crate::backends::native) use enclosure::{HOSTNAME, enclosure};
pub(in crate::backends::native) use input::{DirToMake, HostDirs, PlanInput, Planned};
pub(in crate::backends::native) use purpose::serve;
pub(in crate::backends::native) use sources::{check_sources, wanted};
pub(in crate::backends::native) use users::users;
