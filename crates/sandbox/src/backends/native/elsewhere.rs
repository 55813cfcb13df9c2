//! Sandboxes made of namespaces on another machine: planned here from what that machine tells
//! of itself, and built there by the stage.
//!
//! They have the system directories of that machine, read-only, and one user: as an ordinary
//! user over there the sandbox's root is that user, as root it is one that has no other files.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use vestal_config::{ConfigError, Settings};
use vestal_stage::survey;
use vestal_wire::machine::PlannedDir;
use vestal_wire::survey::MachineSurvey;
use vestal_wire::{GuestSettings, Purpose};

use super::explain::{HostState, StageFailure, explain};
use super::facts::HostFacts;
use super::launch::guest_settings_of;
use super::plan::{self, HostDirs, PlanInput, PlannedFor, PlannedSandbox};
use super::private::PrivatePaths;
use super::records;
use super::settings::NativeSettings;
use super::tier::{self, Tier};
use crate::backend::BackendError;
use crate::backends::own_system::LimitKind;
use crate::mounts::Mounts;
use crate::settings::Volumes;
use crate::{Overrides, Spec};

/// Descriptors of the stage, and later of the guest.
const READY: i32 = 1;
const HOLD: i32 = 2;

/// What shapes a sandbox made of namespaces on another machine.
#[derive(Debug, Clone)]
pub(in crate::backends) struct RemoteShape(NativeSettings);

/// The directories of such a sandbox over there.
#[derive(Debug, Clone)]
pub(in crate::backends) struct RemoteDirs {
    /// The directory of all that is ours, by its real path.
    pub(in crate::backends) root: PathBuf,
    /// The instance's own.
    pub(in crate::backends) instance: PathBuf,
    /// Workspace, home and what the guest keeps.
    pub(in crate::backends) sandbox: PathBuf,
    /// Whether what the guest keeps goes with the instance.
    pub(in crate::backends) is_owned: bool,
}

/// Such a sandbox, planned.
#[derive(Debug)]
pub(in crate::backends) struct RemotePlan {
    /// What the stage carries out, encoded.
    pub(in crate::backends) enclosure: Vec<u8>,
    /// Directories to make before.
    pub(in crate::backends) dirs: Vec<PlannedDir>,
    /// Limits that are left out.
    pub(in crate::backends) unenforced: Vec<String>,
    /// What is worth saying once.
    pub(in crate::backends) remarks: Vec<String>,
    /// What is missing for a better sandbox, and how to have it.
    pub(in crate::backends) missing: Vec<String>,
    planned: PlannedSandbox,
}

impl RemoteShape {
    /// Reads the settings. What names directories of this machine is left out: it is not there.
    pub(in crate::backends) fn read(
        settings: &Settings,
        overrides: &Overrides,
    ) -> Result<Self, ConfigError> {
        let read = NativeSettings::read(settings, overrides)?;
        Ok(Self(NativeSettings {
            rootfs: None,
            volumes: Volumes::EMPTY,
            mount: None,
            binds: Vec::new(),
            user_home: None,
            busy_dirs: Vec::new(),
            ..read
        }))
    }

    /// Returns what is not the default.
    pub(in crate::backends) fn spec(&self) -> Spec {
        self.0.spec()
    }

    /// Plans a sandbox around a guest.
    pub(in crate::backends) fn plan(
        &self,
        survey: &MachineSurvey,
        dirs: &RemoteDirs,
    ) -> Result<RemotePlan, BackendError> {
        let record = records::init_file(&dirs.instance);
        self.plan_for(survey, dirs, |owners| plan::serve_purpose(&record, READY, HOLD, owners))
    }

    /// Plans one that is removed as soon as it is built.
    pub(in crate::backends) fn plan_trial(
        &self,
        survey: &MachineSurvey,
        dirs: &RemoteDirs,
    ) -> Result<RemotePlan, BackendError> {
        self.plan_for(survey, dirs, |_| Purpose::Trial)
    }

    fn plan_for(
        &self,
        survey: &MachineSurvey,
        dirs: &RemoteDirs,
        purpose: impl FnOnce(tier::Owners) -> Purpose,
    ) -> Result<RemotePlan, BackendError> {
        let facts = survey::from_report(survey).ok_or_else(|| BackendError::Advised {
            problem: "that machine describes itself as no machine can be".to_owned(),
            advice: "find out what answers there in place of the guest's program".to_owned(),
        })?;
        let users = plan::users(Tier::ReadOnly, &facts);
        tier::check_users(&users, &survey.uid_map, &survey.gid_map)?;
        let (max_processes, unenforced) = self.limits()?;
        let settings = NativeSettings { own_dirs: vec![dirs.root.clone()], ..self.0.clone() };
        let planned = plan::enclosure(&PlanInput {
            machine: PlannedFor::AnotherMachine,
            dirs: &dirs.host_dirs(),
            settings: &settings,
            facts: &facts,
            tier: Tier::ReadOnly,
            purpose: purpose(tier::owners(&users)),
            users,
            mounts: &Mounts::default(),
            private: &PrivatePaths::default(),
            etc_dir: &dirs.instance.join("etc"),
            rootfs: None,
            cgroups: &[],
            max_processes,
        })?;
        let enclosure = vestal_wire::encode(&planned.enclosure)
            .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })?;
        let made = planned.dirs_to_make.iter().map(|dir| PlannedDir {
            path: dir.path.as_os_str().as_bytes().to_vec().into(),
            mode: dir.mode,
            owner: dir.owner.map(|(user, _)| user),
        });
        let dirs = made.collect();
        let remarks = planned.remarks.iter().cloned();
        let remarks = remarks.chain(self.0.limits.warning(&unenforced)).collect();
        let missing = missing(&facts);
        Ok(RemotePlan { enclosure, dirs, unenforced, remarks, missing, planned })
    }

    /// Returns the number of processes that the kernel counts, and the limits that nobody keeps
    /// over there.
    fn limits(&self) -> Result<(Option<u64>, Vec<String>), BackendError> {
        let mut unenforced = Vec::new();
        for kind in [LimitKind::Cpu, LimitKind::Memory, LimitKind::Disk] {
            if self.0.limits.requires(kind) {
                return Err(BackendError::Unenforceable {
                    key: kind.key(),
                    reason: "isolated sandboxes on ssh have no control groups and no quotas"
                        .to_owned(),
                    advice: format!("set {} to 0 for no limit, or use another backend", kind.key()),
                });
            }
            if self.0.limits.get(kind).value != 0 {
                unenforced.push(kind.key().to_owned());
            }
        }
        let pids = self.0.limits.get(LimitKind::Pids).value;
        Ok(((pids != 0).then_some(pids), unenforced))
    }
}

impl RemotePlan {
    /// Returns the settings of the guest.
    pub(in crate::backends) fn guest_settings(&self, guest: &GuestSettings) -> GuestSettings {
        guest_settings_of(&self.planned, guest)
    }
}

impl RemoteDirs {
    fn host_dirs(&self) -> HostDirs {
        let state = if self.is_owned { &self.instance } else { &self.sandbox };
        HostDirs {
            instance: self.instance.clone(),
            boot: self.instance.join("boot"),
            io: self.instance.join("io"),
            state: state.join("state"),
            workspace: self.sandbox.join("workspace"),
            home: self.sandbox.join("home"),
            layers: self.instance.join("layers"),
        }
    }
}

/// Where work is, and the meaning of `~`, in such a sandbox.
pub(in crate::backends) const WORKSPACE: &str = crate::backends::own_system::WORKSPACE;
pub(in crate::backends) const HOME: &str = super::plan::HOME;

/// Returns the name of what such sandboxes have for a system.
pub(in crate::backends) fn tier_name() -> &'static str {
    Tier::ReadOnly.as_str()
}

fn missing(facts: &HostFacts) -> Vec<String> {
    let mut missing = vec![
        "packages of that machine's system cannot be installed in the sandbox: install them in \
         its home, or on the machine"
            .to_owned(),
    ];
    if !facts.is_root() {
        missing.push(
            "root is the only user in the sandbox: servers that refuse to be root do not run"
                .to_owned(),
        );
    }
    missing
}

/// Returns the error for a failure of the stage over there; nothing if it is none of the stage.
pub(in crate::backends) fn explain_failure(
    reason: &str,
    survey: &MachineSurvey,
    dir: &Path,
) -> Option<BackendError> {
    let failure: StageFailure = serde_json::from_str(reason).ok()?;
    let known = |name: &str| HostState::SYSCTL_NAMES.into_iter().find(|known| *known == name);
    let sysctls = survey.sysctls.iter();
    let host = HostState {
        sysctls: sysctls.filter_map(|(name, value)| Some((known(name)?, value.clone()))).collect(),
        layers: dir.to_owned(),
        filesystem: None,
        is_root: survey.uid == 0,
    };
    Some(explain(&failure, &host))
}
