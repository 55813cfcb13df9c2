//! The machines that the settings and records name, each opened once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use vestal_config::Settings;

use super::login::HostLogin;
use super::machine::Machine;
use super::settings;
use crate::backend::BackendError;
use crate::embedded::guests_dir;

/// The machines of a home.
#[derive(Debug)]
pub(super) struct Machines {
    settings: Arc<Settings>,
    known: Mutex<HashMap<HostLogin, Arc<Machine>>>,
}

impl Machines {
    /// Returns the machines of the settings' home. Nobody is asked yet.
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, known: Mutex::default() }
    }

    pub(super) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Returns the login that the settings name.
    pub(super) fn login(&self) -> Result<HostLogin, BackendError> {
        settings::login(&self.settings)?.ok_or_else(|| BackendError::Advised {
            problem: "terminal.ssh_host is not set".to_owned(),
            advice: "name the machine: vestal config set terminal.ssh_host HOST".to_owned(),
        })
    }

    /// Returns the machine that the settings name; none if they name no host.
    pub(super) fn named(&self) -> Result<Option<Arc<Machine>>, BackendError> {
        settings::login(&self.settings)?.map(|login| self.of(login)).transpose()
    }

    /// Returns the machine of a login.
    pub(super) fn of(&self, login: HostLogin) -> Result<Arc<Machine>, BackendError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(machine) = known.get(&login) {
            return Ok(Arc::clone(machine));
        }
        let home = self.settings.home();
        let machine = Machine::new(
            login.clone(),
            &home.run_dir(),
            guests_dir(home),
            self.settings.environment(),
        );
        let machine = Arc::new(machine?);
        known.insert(login, Arc::clone(&machine));
        Ok(machine)
    }

    /// Returns the machine of a record: the one on record, by the key and the configuration of
    /// now where it is the one that the settings name. Without a record it is that one.
    pub(super) fn recorded(
        &self,
        recorded: Option<HostLogin>,
    ) -> Result<Arc<Machine>, BackendError> {
        let login = match recorded {
            Some(recorded) => match settings::login(&self.settings) {
                Ok(Some(now)) if now.is_same_place(&recorded) => now,
                _ => recorded,
            },
            None => self.login()?,
        };
        self.of(login)
    }
}
