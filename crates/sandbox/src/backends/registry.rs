//! The backends of this version.

use std::sync::Arc;

use vestal_config::{Group, Settings};

use super::docker::Docker;
use super::local::Local;
use super::native::Native;
use super::ssh::Ssh;
use super::{docker, local, native, ssh};
use crate::HomeId;
use crate::backend::{Backend, Declaration};

/// A backend that can be opened.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    pub(crate) declaration: &'static Declaration,
    /// The settings that only this backend has.
    pub(crate) settings: Option<&'static Group>,
    /// Returns the backend for a home. Nothing is asked or started yet.
    pub(crate) open: fn(&Arc<Settings>, &HomeId) -> Arc<dyn Backend>,
}

/// Every backend, the best first: `auto` takes the first one that works. A new
/// backend is added here and nowhere else.
pub(crate) const REGISTRY: &[Registration] = &[
    Registration {
        declaration: &native::DECLARATION,
        settings: Some(&native::settings::GROUP),
        open: |settings, _| Arc::new(Native::new(Arc::clone(settings))),
    },
    Registration {
        declaration: &docker::DECLARATION,
        settings: Some(&docker::settings::GROUP),
        open: |settings, home| Arc::new(Docker::new(Arc::clone(settings), home.clone())),
    },
    Registration {
        declaration: &local::DECLARATION,
        settings: None,
        open: |settings, _| Arc::new(Local::of(settings)),
    },
    // Never taken unasked: the one before works everywhere.
    Registration {
        declaration: &ssh::DECLARATION,
        settings: Some(&ssh::settings::GROUP),
        open: |settings, home| Arc::new(Ssh::new(Arc::clone(settings), home.clone())),
    },
];

/// Names of backends that a later version will have.
pub(crate) const RESERVED_NAMES: &[&str] =
    &["apptainer", "singularity", "modal", "daytona", "kubernetes"];

/// Returns what every backend of this version declares, the best first.
pub fn registered() -> impl Iterator<Item = &'static Declaration> {
    REGISTRY.iter().map(|registration| registration.declaration)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use vestal_config::AnyKey as _;

    use super::*;
    use crate::backend::Confinement;
    use crate::settings::keys;

    #[test]
    fn the_documentation_of_the_setting_names_the_backends_in_their_order() {
        // Another machine is taken when it is named, and never unasked.
        let names: Vec<&str> = registered()
            .filter(|declared| declared.confinement != Confinement::Remote)
            .map(|declared| declared.name)
            .collect();
        let (doc, order) = (keys::BACKEND.doc(), names.join(", else "));
        assert!(doc.ends_with(&format!("{order}.")), "{doc}");
    }

    #[test]
    fn every_key_that_a_backend_declares_is_in_the_schema_of_sandboxes() {
        let schema = crate::schema();
        for key in REGISTRY.iter().filter_map(|own| own.settings).flat_map(|own| own.keys) {
            assert!(schema.find(key.name()).is_some(), "{}", key.name());
        }
    }

    #[test]
    fn each_name_has_one_backend_and_no_advice_against_it() {
        let names: Vec<&str> = registered().map(|declared| declared.name).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), distinct.len());
        for declared in registered() {
            assert!(declared.mistaken_names.iter().all(|(name, _)| !distinct.contains(name)));
            assert!(!RESERVED_NAMES.contains(&declared.name));
        }
    }
}
