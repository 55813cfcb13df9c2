//! What a backend is like, for callers that know its name from a record or
//! from the settings: nothing is decided by the name itself.

use std::sync::Arc;

use super::{Engine, Inner};
use crate::backend::{Backend, Confinement, Declaration, Remedy};
use crate::notice::Wording;

impl Engine {
    /// Returns what a backend declares; nothing of one that this version does
    /// not have.
    pub fn declaration(&self, backend: &str) -> Option<&'static Declaration> {
        self.inner.declaration(backend)
    }

    /// Returns how far the instances of a backend keep commands away from the
    /// host.
    pub fn confinement(&self, backend: &str) -> Option<Confinement> {
        self.declaration(backend).map(|declared| declared.confinement)
    }

    /// Returns whether the instances of a backend are made from images.
    pub fn takes_images(&self, backend: &str) -> Option<bool> {
        self.declaration(backend).map(|declared| declared.takes_images)
    }

    /// Returns how changed settings reach the instances of a backend.
    pub fn remedy(&self, backend: &str) -> Option<Remedy> {
        self.declaration(backend).map(|declared| declared.remedy)
    }

    /// Returns how to speak about a task's sandbox on a backend.
    pub fn wording<'a>(&self, task: &'a str, backend: &'a str) -> Wording<'a> {
        self.inner.wording(task, backend)
    }
}

impl Inner {
    /// Reports whether a backend's sandboxes are processes like any other, for
    /// which nothing can be mounted.
    /// Returns the backend whose instances nothing confines, if there is one.
    pub(super) fn unconfined_backend(&self) -> Option<Arc<dyn Backend>> {
        self.backends.iter().find(|backend| backend.confinement() == Confinement::None).cloned()
    }

    pub(super) fn is_unconfined(&self, backend: &str) -> bool {
        self.declaration(backend).is_some_and(|declared| declared.confinement == Confinement::None)
    }

    pub(crate) fn declaration(&self, name: &str) -> Option<&'static Declaration> {
        self.backends.iter().map(|backend| backend.declaration()).find(|found| found.name == name)
    }
}
