#![doc = include_str!("../README.md")]

mod create;
mod error;
mod export;
mod import;
mod profiles;
mod show;
mod site;

pub use create::{CreatedProfile, ProfileStart};
pub use error::ProfileError;
pub use export::{Exported, MAX_ARCHIVE};
pub use import::Imported;
pub use profiles::Profiles;
pub use show::{Details, ProfileListing, ProfileView, Stray};

#[cfg(test)]
mod profiles_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod transfer_tests;
