//! The backends of this version, and those that an engine knows.

use std::fmt;
use std::sync::{Arc, LazyLock};

use vestal_config::{ConfigError, Group, Schema, Settings};

use super::apptainer::Apptainer;
use super::docker::Docker;
#[cfg(feature = "kubernetes")]
use super::kubernetes::Kubernetes;
use super::local::Local;
use super::native::Native;
use super::ssh::{Ssh, SshContainers};
use super::{apptainer, docker, kubernetes, local, native, ssh};
use crate::backend::{Backend, Confinement, Declaration};
use crate::settings::BackendChoice;
use crate::{HomeId, settings};

/// A backend that can be opened.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    pub(crate) declaration: &'static Declaration,
    /// The settings that only this backend has.
    pub(crate) settings: Option<&'static Group>,
    /// Returns the backend for a home. Nothing is asked or started yet.
    pub(crate) open: Open,
}

type Open = fn(&Arc<Settings>, &HomeId) -> Arc<dyn Backend>;

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
        declaration: &apptainer::DECLARATION,
        settings: Some(&apptainer::settings::GROUP),
        open: |settings, _| Arc::new(Apptainer::new(Arc::clone(settings))),
    },
    Registration {
        declaration: &ssh::DECLARATION,
        settings: Some(&ssh::settings::GROUP),
        open: |settings, home| Arc::new(Ssh::new(Arc::clone(settings), home.clone())),
    },
    // Its settings are those of the one before.
    Registration {
        declaration: &ssh::CONTAINERS,
        settings: None,
        open: |settings, home| Arc::new(SshContainers::new(Arc::clone(settings), home.clone())),
    },
    #[cfg(feature = "kubernetes")]
    Registration {
        declaration: &kubernetes::DECLARATION,
        settings: Some(&kubernetes::settings::GROUP),
        open: |settings, home| Arc::new(Kubernetes::new(Arc::clone(settings), home.clone())),
    },
];

/// Backends that this version has and this build has not, each with its settings, which mean the
/// same to every build, and with what to do.
pub(crate) const UNBUILT: &[(&str, &Group, &str)] = &[
    #[cfg(not(feature = "kubernetes"))]
    (
        "kubernetes",
        &kubernetes::settings::GROUP,
        "build it in: cargo install --path crates/cli --features kubernetes (or cargo run \
         --release --features kubernetes)",
    ),
];

/// Names of backends that a later version will have.
pub(crate) const RESERVED_NAMES: &[&str] = &["modal", "daytona"];

/// Returns what every backend of this version declares, the best first.
pub fn registered() -> impl Iterator<Item = &'static Declaration> {
    REGISTRY.iter().map(|registration| registration.declaration)
}

/// Returns the backend that a choice comes to with these settings: one may have another take its
/// place.
pub fn backend_in_effect(
    choice: BackendChoice,
    settings: &Settings,
) -> Result<BackendChoice, ConfigError> {
    let declared = choice.named().and_then(|name| registered().find(|found| found.name == name));
    let instead = declared.map(|declared| (declared.replaced_by)(settings)).transpose()?.flatten();
    Ok(instead.map_or(choice, BackendChoice::Named))
}

/// Returns the schema of sandboxes: what all of them have, and what each backend declares.
pub fn schema() -> Schema {
    let backends = REGISTRY.iter().filter_map(|backend| backend.settings);
    let unbuilt = UNBUILT.iter().map(|(_, group, _)| *group);
    Schema::new(std::iter::once(&settings::GROUP).chain(backends).chain(unbuilt))
}

/// The backends that an engine knows, the best first. Each is opened when it is first needed:
/// most commands need one.
#[derive(Debug)]
pub(crate) struct Backends(Vec<KnownBackend>);

struct KnownBackend {
    declaration: &'static Declaration,
    /// How it is opened with other settings; absent: it has the ones it was given.
    open: Option<Open>,
    backend: LazyLock<Arc<dyn Backend>, OpenBackend>,
}

type OpenBackend = Box<dyn FnOnce() -> Arc<dyn Backend> + Send>;

impl fmt::Debug for KnownBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.declaration.name)
    }
}

impl Backends {
    /// Returns those of the registry, for a home.
    pub(crate) fn of_registry(settings: &Arc<Settings>, home: &HomeId) -> Self {
        let known = |registration: &'static Registration| {
            let (settings, home) = (Arc::clone(settings), home.clone());
            KnownBackend {
                declaration: registration.declaration,
                open: Some(registration.open),
                backend: LazyLock::new(Box::new(move || (registration.open)(&settings, &home))),
            }
        };
        Self(REGISTRY.iter().map(known).collect())
    }

    /// Returns exactly these.
    pub(crate) fn exactly(backends: Vec<Arc<dyn Backend>>) -> Self {
        let known = |backend: Arc<dyn Backend>| KnownBackend {
            declaration: backend.declaration(),
            open: None,
            backend: LazyLock::new(Box::new(move || backend)),
        };
        Self(backends.into_iter().map(known).collect())
    }

    /// Returns the same backends with other settings.
    pub(crate) fn with_settings(&self, settings: &Arc<Settings>, home: &HomeId) -> Self {
        let again = |known: &KnownBackend| {
            let backend: OpenBackend = match known.open {
                Some(open) => {
                    let (settings, home) = (Arc::clone(settings), home.clone());
                    Box::new(move || open(&settings, &home))
                }
                None => {
                    let backend = Arc::clone(&known.backend);
                    Box::new(move || backend)
                }
            };
            let backend = LazyLock::new(backend);
            KnownBackend { declaration: known.declaration, open: known.open, backend }
        };
        Self(self.0.iter().map(again).collect())
    }

    /// Returns what each declares.
    pub(crate) fn declarations(&self) -> impl Iterator<Item = &'static Declaration> {
        self.0.iter().map(|known| known.declaration)
    }

    /// Returns each, opening it when it is reached.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        self.0.iter().map(|known| &*known.backend)
    }

    /// Returns those that `auto` may take: what comes after the one that works everywhere is
    /// taken only when it is named.
    pub(crate) fn unasked(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        let everywhere =
            self.declarations().position(|declared| declared.confinement == Confinement::None);
        self.iter().take(everywhere.map_or(usize::MAX, |last| last + 1))
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<dyn Backend>> {
        self.find(|declared| declared.name == name)
    }

    /// Returns the first whose declaration fits.
    pub(crate) fn find(
        &self,
        fits: impl Fn(&'static Declaration) -> bool,
    ) -> Option<&Arc<dyn Backend>> {
        self.0.iter().find(|known| fits(known.declaration)).map(|known| &*known.backend)
    }

    /// Returns the only one, if there is one only.
    pub(crate) fn only(&self) -> Option<&Arc<dyn Backend>> {
        match &self.0[..] {
            [only] => Some(&only.backend),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use vestal_config::AnyKey as _;

    use super::*;
    use crate::settings::keys;

    #[test]
    fn the_documentation_of_the_setting_names_the_backends_in_their_order() {
        // What comes after the one that works everywhere is taken when it is named.
        let home = crate::settings::testing::TestHome::new();
        let id = HomeId("a1".to_owned());
        let known = Backends::of_registry(&Arc::new(home.settings(&[], &[])), &id);
        let names: Vec<&str> = known.unasked().map(|backend| backend.name()).collect();
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
        let names: Vec<&str> = registered()
            .flat_map(|declared| std::iter::once(&declared.name).chain(declared.aliases))
            .copied()
            .collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(names.len(), distinct.len());
        for declared in registered() {
            assert!(declared.mistaken_names.iter().all(|(name, _)| !distinct.contains(name)));
            assert!(!RESERVED_NAMES.contains(&declared.name));
        }
    }
}
