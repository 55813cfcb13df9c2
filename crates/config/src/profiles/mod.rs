//! Profiles: isolated homes below one root.
//!
//! A profile is a directory below `profiles/` with the layout of a home; the
//! profile `default` is the root itself. Whoever makes, renames or deletes one
//! holds the lock of that directory. What is half-made or half-deleted has a
//! name that no profile can have, and goes the next time somebody holds the lock.

pub(crate) mod choice;
mod copy;
mod create;
mod delete;
mod description;
mod error;
mod export;
mod import;
mod list;
mod portable;
mod rename;
mod settings_text;
mod show;
mod site;

pub use create::{Created, Start};
pub use error::ProfileError;
pub use export::Exported;
pub use import::Imported;
pub use list::{Listing, Stray};
pub use show::{Details, ProfileView};

use std::path::PathBuf;

use crate::environment::Environment;
use crate::home::{Home, HomeError};
use crate::schema::Schema;

#[cfg(test)]
#[path = "profiles_tests.rs"]
mod profiles_tests;
#[cfg(test)]
#[path = "transfer_tests.rs"]
mod transfer_tests;

/// The profiles of one root.
#[derive(Debug, Clone)]
pub struct Profiles {
    schema: Schema,
    root: Home,
}

impl Profiles {
    /// Finds the root that the environment names.
    pub fn locate(schema: &Schema, env: &Environment) -> Result<Self, HomeError> {
        Home::locate_root(env).map(|root| Self { schema: schema.clone(), root })
    }

    /// Returns the profiles below a root.
    pub fn at(schema: &Schema, root: impl Into<PathBuf>) -> Self {
        Self { schema: schema.clone(), root: Home::at(root) }
    }

    /// Returns the home of the profile `default`.
    pub fn root(&self) -> &Home {
        &self.root
    }
}
