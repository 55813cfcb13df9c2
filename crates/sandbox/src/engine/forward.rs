//! Variables that are given to jobs because somebody asked for them by name.

use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, PoisonError};

use vestal_config::EnvName;
use vestal_wire::EnvVar;

use super::{Engine, Inner};
use crate::Error;
use crate::backend::JobEnvironment;

impl Engine {
    /// Gives these variables to every job from now on, in place of those that
    /// were asked for before: from the environment, else from `.env`, as far as
    /// they are set and may be handed on ([`vestal_config::Settings::handing`]).
    ///
    /// They go with each job as `terminal.docker_forward_env` does: they are in
    /// no instance, no label and no saved session, a sandbox that is there gets
    /// them as it is, and what the settings say of the same name wins.
    pub fn forward<'a>(&self, names: impl IntoIterator<Item = &'a EnvName>) {
        let handed = self.inner.settings.handed(names);
        let asked: Arc<[EnvVar]> = handed
            .into_iter()
            .map(|(name, value)| EnvVar {
                name: name.as_str().as_bytes().to_vec().into(),
                value: value.as_bytes().to_vec().into(),
            })
            .collect();
        *self.inner.asked.write().unwrap_or_else(PoisonError::into_inner) = asked;
    }
}

impl Inner {
    /// Returns the variables that were asked for and that jobs do not have
    /// anyway.
    pub(crate) fn asked_environment(
        &self,
        environment: JobEnvironment,
    ) -> Result<Vec<EnvVar>, Error> {
        let asked = Arc::clone(&self.asked.read().unwrap_or_else(PoisonError::into_inner));
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let there = match environment {
            JobEnvironment::Callers => self.base_environment()?,
            JobEnvironment::Guests => self.container_environment()?,
        };
        let is_there = |own: &&EnvVar| !there.iter().any(|other| other.name == own.name);
        Ok(asked.iter().filter(is_there).cloned().collect())
    }
}
