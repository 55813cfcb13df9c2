//! The environment of jobs: what the settings say, and what a caller asks to forward.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, PoisonError};

use vestal_config::EnvName;
use vestal_wire::EnvVar;

use super::{Engine, Inner};
use crate::Error;
use crate::backend::JobEnvironment;
use crate::settings::SandboxSettings as _;

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
        *self.inner.forwarded.write().unwrap_or_else(PoisonError::into_inner) = asked;
    }
}

/// Returns the environment for jobs: this process's, without secrets, and
/// the pairs of `terminal.env`.
pub(crate) fn base_environment(engine: &Inner) -> Result<Vec<EnvVar>, Error> {
    if let Some(known) = engine.base_environment.get() {
        return Ok(known.clone());
    }
    let variables = engine.settings.job_environment()?.variables;
    let variables = variables.into_iter().map(variable).collect();
    Ok(engine.base_environment.get_or_init(|| variables).clone())
}

/// Returns what the settings add to the environment of jobs that start
/// with the instance's own. It may hold secrets, so it goes with each job
/// and is neither in the instance nor saved by a session.
pub(crate) fn container_environment(engine: &Inner) -> Result<Vec<EnvVar>, Error> {
    if let Some(known) = engine.container_environment.get() {
        return Ok(known.clone());
    }
    let variables = engine.settings.container_environment()?.variables;
    let variables = variables.into_iter().map(variable).collect();
    Ok(engine.container_environment.get_or_init(|| variables).clone())
}

/// Returns the variables that were asked for and that jobs do not have
/// anyway.
pub(crate) fn forwarded_environment(
    engine: &Inner,
    environment: JobEnvironment,
) -> Result<Vec<EnvVar>, Error> {
    let asked = Arc::clone(&engine.forwarded.read().unwrap_or_else(PoisonError::into_inner));
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let there = match environment {
        JobEnvironment::Callers => base_environment(engine)?,
        JobEnvironment::Guests => container_environment(engine)?,
    };
    let is_there = |own: &&EnvVar| !there.iter().any(|other| other.name == own.name);
    Ok(asked.iter().filter(is_there).cloned().collect())
}

fn variable((name, value): (OsString, OsString)) -> EnvVar {
    EnvVar { name: name.as_bytes().to_vec().into(), value: value.as_bytes().to_vec().into() }
}
