//! What a backend is like, for callers that know its name from a record or
//! from the settings: nothing is decided by the name itself.

use super::{Engine, Inner};
use crate::backend::{Backend, Confinement, Remedy};
use crate::notice::Wording;

impl Engine {
    /// Returns how far the instances of a backend keep commands away from the
    /// host; nothing of a backend that this version does not have.
    pub fn confinement(&self, backend: &str) -> Option<Confinement> {
        self.inner.backend_called(backend).map(Backend::confinement)
    }

    /// Returns whether the instances of a backend are made from images.
    pub fn takes_images(&self, backend: &str) -> Option<bool> {
        self.inner.backend_called(backend).map(Backend::takes_images)
    }

    /// Returns how changed settings reach the instances of a backend.
    pub fn remedy(&self, backend: &str) -> Option<Remedy> {
        self.inner.backend_called(backend).map(Backend::remedy)
    }

    /// Returns how to speak about a task's sandbox on a backend.
    pub fn wording<'a>(&self, task: &'a str, backend: &'a str) -> Wording<'a> {
        self.inner.wording(task, backend)
    }
}

impl Inner {
    /// Reports whether a backend's sandboxes are processes like any other, for
    /// which nothing can be mounted.
    pub(super) fn is_unconfined(&self, backend: &str) -> bool {
        self.backend_called(backend)
            .is_some_and(|backend| backend.confinement() == Confinement::None)
    }

    pub(crate) fn backend_called(&self, name: &str) -> Option<&dyn Backend> {
        self.backends.iter().map(|backend| &**backend).find(|backend| backend.name() == name)
    }
}
