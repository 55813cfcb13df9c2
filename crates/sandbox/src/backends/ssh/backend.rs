//! The backend's traits, implemented with requests to another machine.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use vestal_config::{AnyKey as _, ConfigError, Settings};
use vestal_wire::machine::{
    InstanceLabel, InstancePlaces, LaunchOrder, MachineInstance, MachineReply, MachineRequest,
    MachineState,
};

use super::isolation::{self, IsolatedLaunch, IsolationRecord};
use super::login::HostLogin;
use super::machine::Machine;
use super::settings::{self, SshIsolation};
use crate::backend::{
    Availability, Backend, BackendError, ByteStream, Declaration, Description, FoundInstance,
    HostDirectories, Instance, InstanceFilter, InstanceRequest, InstanceState, KeptVolumes,
    Locator, Remedy, StartedInstance, VolumeStore,
};
use crate::backends::docker::one_line;
use crate::backends::native::elsewhere::{self, RemoteShape, WORKSPACE};
use crate::backends::own_system::{self, start_dir};
use crate::embedded::guests_dir;
use crate::spec::Tightening;
use crate::store::remove_tree;
use crate::{HomeId, Overrides, ProgressSink, Spec};

/// The declaration of the backend.
pub(crate) static DECLARATION: Declaration = Declaration {
    name: "ssh",
    workspace: |locator| {
        let known = serde_json::from_value::<SshLocator>(locator.clone());
        known.map_or_else(|_| PathBuf::from("/"), |known| known.workspace)
    },
    host_directories: HostDirectories::Synced,
    remedy: Remedy::Restart,
    tightening: |key| {
        if key == settings::SSH_ISOLATION.name() {
            Tightening::Set
        } else {
            own_system::tightening(key)
        }
    },
    hung_advice: "see whether the host of terminal.ssh_host is up and reached, and try again",
    ..Declaration::REMOTE
};

/// Longest path over there that is taken.
const MAX_PATH: usize = 4096;

/// Longest id of an instance that is taken.
const MAX_ID: usize = 64;

/// How far the clocks may be apart before it is worth a note.
const CLOCKS_APART: SignedDuration = SignedDuration::from_mins(1);

/// Free space below which it is worth a note.
const LITTLE_SPACE: u64 = 256 << 20;

/// What is recorded of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SshLocator {
    login: HostLogin,
    /// The machine's name for itself.
    machine: String,
    /// The user over there.
    user: String,
    workspace: PathBuf,
    home: PathBuf,
    /// What keeps it apart from that machine. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    isolation: Option<IsolationRecord>,
}

impl SshLocator {
    /// Takes over what a machine says of an instance's places. It is shown to people, so it is
    /// text as paths are.
    fn new(
        login: &HostLogin,
        places: InstancePlaces,
        isolation: Option<IsolationRecord>,
    ) -> Result<Self, BackendError> {
        let path = |bytes: Vec<u8>| {
            let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
            let is_plain = path.as_os_str().as_bytes().iter().all(|byte| !byte.is_ascii_control());
            if path.is_absolute() && path.as_os_str().len() <= MAX_PATH && is_plain {
                Ok(path)
            } else {
                Err(BackendError::Advised {
                    problem: format!(
                        "{login} names a file that is not a directory: {}",
                        one_line(&path.to_string_lossy())
                    ),
                    advice: "see that HOME is set to an ordinary directory over there".to_owned(),
                })
            }
        };
        let (workspace, home) = match &isolation {
            Some(_) => (PathBuf::from(WORKSPACE), PathBuf::from(elsewhere::HOME)),
            None => (path(places.workspace.into())?, path(places.home.into())?),
        };
        Ok(Self {
            login: login.clone(),
            machine: one_line(&places.machine.host),
            user: one_line(&places.user),
            workspace,
            home,
            isolation,
        })
    }

    fn into_locator(self) -> Result<Locator, BackendError> {
        serde_json::to_value(self)
            .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })
    }
}

/// The backend `ssh`.
#[derive(Debug)]
pub(crate) struct Ssh {
    settings: Arc<Settings>,
    home: HomeId,
    machines: Mutex<HashMap<HostLogin, Arc<Machine>>>,
    /// Instances that no machine was ever asked to make.
    unmade: Mutex<HashSet<String>>,
}

impl Ssh {
    /// Returns the backend for the settings' home. Nobody is asked yet.
    pub(crate) fn new(settings: Arc<Settings>, home: HomeId) -> Self {
        Self { settings, home, machines: Mutex::default(), unmade: Mutex::default() }
    }

    /// Returns the login that the settings name.
    fn login(&self) -> Result<HostLogin, BackendError> {
        settings::login(&self.settings)?.ok_or_else(|| BackendError::Advised {
            problem: "terminal.ssh_host is not set".to_owned(),
            advice: "name the machine: vestal config set terminal.ssh_host HOST".to_owned(),
        })
    }

    fn machine(&self, login: HostLogin) -> Result<Arc<Machine>, BackendError> {
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = machines.get(&login) {
            return Ok(Arc::clone(known));
        }
        let home = self.settings.home();
        let machine = Machine::new(
            login.clone(),
            &home.run_dir(),
            guests_dir(home),
            self.settings.environment(),
        );
        let machine = Arc::new(machine?);
        machines.insert(login, Arc::clone(&machine));
        Ok(machine)
    }

    /// Returns the machine that an instance is on: the one on record, by the key and the
    /// configuration of now where it is the one that the settings name. Without a record it is
    /// that one.
    fn machine_of(&self, instance: &Instance) -> Result<Arc<Machine>, BackendError> {
        let recorded = serde_json::from_value::<SshLocator>(instance.locator.clone()).ok();
        let login = match recorded.map(|recorded| recorded.login) {
            Some(recorded) => match settings::login(&self.settings) {
                Ok(Some(now)) if is_same_place(&now, &recorded) => now,
                _ => recorded,
            },
            None => self.login()?,
        };
        self.machine(login)
    }

    async fn launch(
        &self,
        request: InstanceRequest,
        is_new: bool,
    ) -> Result<StartedInstance, BackendError> {
        let wanted = self.login()?;
        let machine = if is_new {
            self.machine(wanted.clone())?
        } else {
            self.machine_of(&request.instance)?
        };
        if !is_same_place(machine.login(), &wanted) {
            return Err(BackendError::OtherSystem {
                was: machine.login().to_string(),
                now: wanted.to_string(),
            });
        }
        let owner = request.owner.as_ref().map(serde_json::to_string).transpose();
        let owner =
            owner.map_err(|error| BackendError::GuestFailed { reason: error.to_string() })?;
        let label = InstanceLabel {
            instance: request.instance.id.clone(),
            key: request.key.hash(),
            home: request.key.home().as_str().to_owned(),
            task: request.key.task().as_str().to_owned(),
            generation: request.generation,
            owner,
            spec: request.spec.hash(),
            machine: None,
            created_ms: None,
            is_enclosed: None,
        };
        let start_dir = start_dir(&self.settings, &request.overrides)?;
        let isolated = match settings::isolation(&self.settings)? {
            SshIsolation::None => None,
            SshIsolation::Native => {
                let shape = RemoteShape::read(&self.settings, &request.overrides)?;
                Some(isolation::plan(&machine, &shape, &request).await?)
            }
        };
        let guest = match &isolated {
            Some(isolated) => isolated.plan.guest_settings(&request.guest),
            None => request.guest,
        };
        let order = LaunchOrder {
            label,
            guest,
            is_new,
            start_dir: start_dir.map(|dir| dir.as_os_str().as_bytes().to_vec().into()),
            failpoint: guest_failpoint(),
            enclosed: isolated.as_ref().map(IsolatedLaunch::to_order),
        };
        let order = MachineRequest::Launch(Box::new(order));
        match (machine.ask(&order, &request.progress).await?, isolated) {
            (MachineReply::Launched(places), isolated) => {
                let (record, warnings) = isolated.map(IsolatedLaunch::into_record).unzip();
                let locator = SshLocator::new(machine.login(), places, record)?.into_locator()?;
                Ok(StartedInstance { locator, warnings: warnings.unwrap_or_default() })
            }
            (MachineReply::NotStarted { reason }, Some(isolated)) => {
                Err(isolated.explain(&machine, &reason))
            }
            (other, _) => Err(machine.unexpected(other)),
        }
    }

    /// Makes a request whose answer is that it is done.
    async fn order(&self, machine: &Machine, request: &MachineRequest) -> Result<(), BackendError> {
        match machine.ask(request, &ProgressSink::default()).await? {
            MachineReply::Done => Ok(()),
            other => Err(machine.unexpected(other)),
        }
    }

    async fn look(&self) -> Result<Vec<String>, BackendError> {
        let machine = self.machine(self.login()?)?;
        // The first request may have to log in and to send the guest.
        machine.ask(&MachineRequest::Look, &ProgressSink::default()).await?;
        let asked = Timestamp::now();
        let reply = machine.ask(&MachineRequest::Look, &ProgressSink::default()).await?;
        let MachineReply::Facts(facts) = reply else {
            return Err(machine.unexpected(reply));
        };
        let answered = Timestamp::now();
        let mut notes = vec![
            format!(
                "{} is {}, Linux {} on {}, as {}",
                machine.login(),
                one_line(&facts.name.host),
                one_line(&facts.kernel),
                machine.architecture()?,
                one_line(&facts.user)
            ),
            format!(
                "answers in {} ms; all of Vestal's is in {}",
                answered.duration_since(asked).as_millis(),
                one_line(&shown(&facts.root))
            ),
        ];
        notes.extend(match settings::isolation(&self.settings)? {
            SshIsolation::None => {
                vec![
                    "no isolation: commands run as that user, on that machine's files and \
                     network; terminal.ssh_isolation: native keeps them apart from it"
                        .to_owned(),
                ]
            }
            SshIsolation::Native => {
                let shape = RemoteShape::read(&self.settings, &Overrides::default())?;
                isolation::rehearse(&machine, &shape).await?
            }
        });
        notes.extend(clock_note(facts.clock_ms, asked, answered));
        if facts.free_bytes < LITTLE_SPACE {
            notes.push(format!(
                "only {} MiB are free there: what a command writes may not fit",
                facts.free_bytes >> 20
            ));
        }
        Ok(notes)
    }

    /// Takes over an instance that a machine tells of; nothing if it cannot be one of ours.
    fn found(machine: &Machine, reported: MachineInstance) -> Option<FoundInstance> {
        let MachineInstance { label, state, places, age_ms } = reported;
        // It becomes the name of a directory here.
        let is_id = !label.instance.is_empty()
            && label.instance.len() <= MAX_ID
            && label.instance.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let owner = match &label.owner {
            // An owner that cannot be read is somebody.
            Some(text) => Some(serde_json::from_str(text).ok()?),
            None => None,
        };
        let isolation = label.is_enclosed.unwrap_or(false).then(IsolationRecord::default);
        let locator = SshLocator::new(machine.login(), places, isolation).ok()?;
        let locator = locator.into_locator().ok()?;
        is_id.then(|| FoundInstance {
            id: label.instance,
            key: one_line(&label.key),
            task: one_line(&label.task),
            generation: label.generation,
            persistent: owner.is_none(),
            owner,
            spec: one_line(&label.spec),
            state: instance_state(&state),
            created_at: age_ms.and_then(before_now),
            locator,
        })
    }
}

/// Says how far a clock is from this machine's, if that is worth a note. It told the time between
/// these two moments.
fn clock_note(clock_ms: u64, asked: Timestamp, answered: Timestamp) -> Option<String> {
    let clock = Timestamp::from_millisecond(i64::try_from(clock_ms).ok()?).ok()?;
    let (behind, ahead) = (asked.duration_since(clock), clock.duration_since(answered));
    if behind > CLOCKS_APART {
        return Some(format!("its clock is {behind:#} behind this machine's"));
    }
    (ahead > CLOCKS_APART).then(|| format!("its clock is {ahead:#} ahead of this machine's"))
}

/// Returns whether two logins lead to the same place, whatever they prove themselves by.
fn is_same_place(one: &HostLogin, other: &HostLogin) -> bool {
    (&one.host, &one.user, one.port) == (&other.host, &other.user, other.port)
}

/// Returns the time so many milliseconds ago, by this machine's clock: the other one's may be
/// wrong.
fn before_now(millis: u64) -> Option<Timestamp> {
    Timestamp::now().checked_sub(Duration::from_millis(millis)).ok()
}

fn instance_state(state: &MachineState) -> InstanceState {
    match state {
        MachineState::Running => InstanceState::Running,
        MachineState::Stopped { for_ms } => {
            InstanceState::Stopped { since: for_ms.and_then(before_now) }
        }
        MachineState::Absent => InstanceState::Absent,
    }
}

/// Returns a test's failpoint for the guest.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "a switch of tests is not a setting")]
fn guest_failpoint() -> Option<String> {
    std::env::var("VESTAL_GUEST_FAILPOINT").ok()
}

#[cfg(not(feature = "failpoints"))]
fn guest_failpoint() -> Option<String> {
    None
}

#[async_trait]
impl Backend for Ssh {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    async fn probe(&self) -> Availability {
        match self.look().await {
            Ok(notes) => Availability::Works { notes },
            Err(BackendError::Config(error)) => Availability::Misconfigured {
                problem: error.to_string(),
                advice: "correct the setting".to_owned(),
            },
            Err(error) => Availability::Missing {
                reason: error.to_string(),
                advice: error.advice().unwrap_or("try again").to_owned(),
            },
        }
    }

    fn spec(&self, settings: &Settings, overrides: &Overrides) -> Result<Spec, ConfigError> {
        let mut spec = match settings::isolation(settings)? {
            SshIsolation::None => Spec::default(),
            kept_apart @ SshIsolation::Native => {
                let shape = RemoteShape::read(settings, overrides)?.spec();
                let key = settings::SSH_ISOLATION.name();
                shape.with(key, kept_apart.as_str(), Tightening::Set)
            }
        };
        if let Some(login) = settings::login(settings)? {
            spec = spec.with(settings::SSH_HOST.name(), &login.host, Tightening::Never);
            if let Some(user) = &login.user {
                spec = spec.with(settings::SSH_USER.name(), user, Tightening::Never);
            }
            if let Some(port) = login.port {
                spec = spec.with(settings::SSH_PORT.name(), &port.to_string(), Tightening::Never);
            }
        }
        Ok(spec)
    }

    async fn create(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        // A machine that cannot be asked at all has made nothing, which is certain only as long
        // as it has not been asked to.
        let reached = match self.login().and_then(|login| self.machine(login)) {
            Ok(machine) => machine.ask(&MachineRequest::Look, &request.progress).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = reached {
            let mut unmade = self.unmade.lock().unwrap_or_else(PoisonError::into_inner);
            unmade.insert(request.instance.id);
            return Err(error);
        }
        self.launch(request, true).await
    }

    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        self.launch(request, false).await
    }

    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError> {
        let machine = self.machine_of(instance)?;
        let request = MachineRequest::State { instance: instance.id.clone() };
        match machine.ask(&request, &ProgressSink::default()).await? {
            MachineReply::State(state) => Ok(instance_state(&state)),
            other => Err(machine.unexpected(other)),
        }
    }

    async fn connect(&self, instance: &Instance) -> Result<Box<dyn ByteStream>, BackendError> {
        Ok(Box::new(self.machine_of(instance)?.open(&instance.id).await?))
    }

    async fn end(&self, instance: &Instance, timeout: Duration) -> Result<(), BackendError> {
        let machine = self.machine_of(instance)?;
        let request = MachineRequest::End { instance: instance.id.clone() };
        // The machine has a deadline of its own for the death of processes.
        let timeout = timeout.max(Duration::from_secs(15));
        match tokio::time::timeout(timeout, self.order(&machine, &request)).await {
            Ok(ended) => ended,
            Err(_) => Err(BackendError::WontEnd {
                id: instance.id.clone(),
                reason: format!(
                    "{} has not confirmed it within {} s",
                    machine.login(),
                    timeout.as_secs()
                ),
            }),
        }
    }

    async fn remove(&self, instance: &Instance) -> Result<(), BackendError> {
        let unmade =
            self.unmade.lock().unwrap_or_else(PoisonError::into_inner).remove(&instance.id);
        if !unmade {
            let machine = self.machine_of(instance)?;
            self.order(&machine, &MachineRequest::Remove { instance: instance.id.clone() }).await?;
        }
        remove_tree(&instance.dir).map_err(|error| {
            let action = format!("remove {}", instance.dir.display());
            BackendError::io(action)(std::io::Error::other(error))
        })
    }

    async fn find(&self, whose: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        // Without a machine there is nothing to be found on it.
        let Some(login) = settings::login(&self.settings)? else {
            return Ok(Vec::new());
        };
        let machine = self.machine(login)?;
        let (home, key) = match whose {
            InstanceFilter::Key(key) => (Some(self.home.as_str().to_owned()), Some(key.to_owned())),
            InstanceFilter::Home(home) => (Some(home.as_str().to_owned()), None),
        };
        let request = MachineRequest::Find { home: home.clone(), key: key.clone() };
        match machine.ask(&request, &ProgressSink::default()).await? {
            MachineReply::Found(found) => Ok(found
                .into_iter()
                // What was not asked for is not taken.
                .filter(|found| home.as_ref().is_none_or(|home| found.label.home == *home))
                .filter(|found| key.as_ref().is_none_or(|key| found.label.key == *key))
                .filter_map(|found| Self::found(&machine, found))
                .collect()),
            other => Err(machine.unexpected(other)),
        }
    }

    fn describe(&self, locator: &Locator) -> Description {
        let Ok(known) = serde_json::from_value::<SshLocator>(locator.clone()) else {
            return Description::default();
        };
        let description = Description {
            name: Some(format!("{} ({})", known.login, known.machine)),
            transport: Some("ssh".to_owned()),
            ..Description::default()
        };
        match known.isolation {
            Some(isolation) => Description {
                unenforced: isolation.unenforced,
                tier: Some(elsewhere::tier_name().to_owned()),
                missing: isolation.missing,
                ..description
            },
            None => {
                let weakness = format!(
                    "no isolation on {}: commands run there as {}",
                    known.machine, known.user
                );
                Description { weakened: vec![weakness], ..description }
            }
        }
    }

    fn volume_store(&self) -> Option<&dyn VolumeStore> {
        Some(self)
    }
}

#[async_trait]
impl VolumeStore for Ssh {
    async fn volumes(&self, key: &str) -> Result<Vec<String>, BackendError> {
        let Some(login) = settings::login(&self.settings)? else {
            return Ok(Vec::new());
        };
        let machine = self.machine(login)?;
        let request = MachineRequest::Files { key: key.to_owned() };
        match machine.ask(&request, &ProgressSink::default()).await? {
            MachineReply::Files(files) => Ok(files
                .iter()
                .map(|path| format!("{}:{}", machine.login(), one_line(&shown(path))))
                .collect()),
            other => Err(machine.unexpected(other)),
        }
    }

    async fn remove_volumes(&self, key: &str, kept: KeptVolumes) -> Result<(), BackendError> {
        let Some(login) = settings::login(&self.settings)? else {
            return Ok(());
        };
        let machine = self.machine(login)?;
        let keep_files = kept == KeptVolumes::Files;
        self.order(&machine, &MachineRequest::RemoveFiles { key: key.to_owned(), keep_files }).await
    }
}

fn shown(path: &[u8]) -> String {
    Path::new(std::ffi::OsStr::from_bytes(path)).to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "backend_tests.rs"]
mod tests;
