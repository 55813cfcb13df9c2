//! The backends of this version.

use std::sync::Arc;

use vestal_config::Settings;

use super::docker::Docker;
use super::local::Local;
use super::native::Native;
use super::{docker, local, native};
use crate::HomeId;
use crate::backend::{Backend, Declaration};

/// A backend that can be opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registration {
    pub(crate) declaration: &'static Declaration,
    /// Returns the backend for a home. Nothing is asked or started yet.
    pub(crate) open: fn(&Arc<Settings>, &HomeId) -> Arc<dyn Backend>,
}

/// Every backend, the best first: `auto` takes the first one that works. A new
/// backend is added here and nowhere else.
pub(crate) const REGISTRY: &[Registration] = &[
    Registration {
        declaration: &native::DECLARATION,
        open: |settings, _| Arc::new(Native::new(Arc::clone(settings))),
    },
    Registration {
        declaration: &docker::DECLARATION,
        open: |settings, home| Arc::new(Docker::new(Arc::clone(settings), home.clone())),
    },
    Registration {
        declaration: &local::DECLARATION,
        open: |settings, _| Arc::new(Local::of(settings)),
    },
];

/// Returns what every backend of this version declares, the best first.
pub fn registered() -> impl Iterator<Item = &'static Declaration> {
    REGISTRY.iter().map(|registration| registration.declaration)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use vestal_config::{AnyKey as _, keys};

    use super::*;

    #[test]
    fn the_setting_allows_exactly_the_names_that_are_registered() {
        let names: Vec<&str> = registered().map(|declared| declared.name).collect();
        assert_eq!(keys::BACKEND.allowed(), format!("auto, {}", names.join(", ")));
    }

    #[test]
    fn each_name_has_one_backend_and_no_advice_against_it() {
        let names: Vec<&str> = registered().map(|declared| declared.name).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), distinct.len());
        for declared in registered() {
            assert!(declared.mistaken_names.iter().all(|(name, _)| !distinct.contains(name)));
        }
    }
}
