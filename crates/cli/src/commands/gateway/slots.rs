//! Which slots a home has, one for each profile and one for the dashboard, and what is started in them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::time::Duration;

use vestal_api::DASHBOARD_SLOT;
use vestal_config::{Environment, Home, ProfileName, Settings};
use vestal_profiles::Profiles;
use vestal_supervisor::{BootRule, FoundSlot, Slot, SlotName, SlotService, SlotSource};

use super::image::is_on;
use crate::context::Context;
use crate::error::CommandFailure;

/// What follows `vestal -p NAME` in the slot of a profile.
const GATEWAY_COMMAND: [&str; 3] = ["gateway", "run", "--supervised"];
/// What follows `vestal` in the slot of the dashboard.
const DASHBOARD_COMMAND: [&str; 3] = ["dashboard", "run", "--supervised"];
/// Asks a supervisor that begins for the dashboard.
const DASHBOARD_VARIABLE: &str = "VESTAL_DASHBOARD";

/// From SIGTERM to SIGKILL, beyond the time that the settings give running turns: to interrupt
/// them, to let the dispatcher finish what it has claimed, and to let go of sandboxes.
const STOP_WITHIN: Duration = Duration::from_secs(90);
/// From SIGTERM to SIGKILL for the dashboard, whose work is done by others.
pub(super) const DASHBOARD_STOP_WITHIN: Duration = Duration::from_secs(15);
/// What is not ready by then is started again.
const READY_WITHIN: Duration = Duration::from_mins(2);

#[derive(Debug, Clone)]
pub(crate) struct HomeSlots {
    profiles: Profiles,
    program: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    captured: Environment,
}

impl HomeSlots {
    pub(crate) fn new(context: &Context) -> Result<Self, CommandFailure> {
        let profiles = context.profiles()?;
        let program = std::env::current_exe()
            .map_err(|error| CommandFailure::io("find the program vestal", &error))?;
        let environment = environment(context, profiles.root());
        let captured = context.environment().clone();
        Ok(Self { profiles, program, environment, captured })
    }

    /// Returns the home that all profiles share.
    pub(crate) fn root(&self) -> &Home {
        self.profiles.root()
    }

    /// Returns where the supervisor's lock, socket and records are.
    pub(crate) fn run_dir(&self) -> PathBuf {
        self.root().run_dir()
    }

    /// Makes the directory of profiles, so that the first one that is made is noticed.
    pub(crate) fn make_profiles_dir(&self) -> Result<(), CommandFailure> {
        let dir = self.root().profiles_dir();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .map_err(|error| CommandFailure::io(&format!("make {}", dir.display()), &error))
    }

    /// Returns the command line of a supervisor that is started detached.
    pub(crate) fn supervisor_command(&self) -> Vec<OsString> {
        vec![self.program.clone().into(), "supervise".into(), "--detached".into()]
    }

    pub(crate) fn program(&self) -> &std::path::Path {
        &self.program
    }

    pub(crate) fn environment(&self) -> &BTreeMap<OsString, OsString> {
        &self.environment
    }

    /// Returns the settings of a profile, as its gateway would find them.
    pub(crate) fn settings(&self, profile: &ProfileName) -> Settings {
        let home = self.root().sibling(profile.clone());
        Settings::load(&vestal_api::schema(), home, self.captured.clone(), Vec::new())
    }

    /// Returns the slot of a profile, which need not exist.
    pub(crate) fn slot(&self, profile: &ProfileName) -> Result<Slot, CommandFailure> {
        let home = self.root().sibling(profile.clone()).dir();
        // Settings that cannot be read are the gateway's to complain about.
        let drain = self.settings(profile).get(&vestal_api::keys::AGENT_RESTART_DRAIN_TIMEOUT);
        let drain = drain.map_or(Duration::ZERO, |found| found.value.duration());
        let mut argv: Vec<OsString> =
            vec![self.program.clone().into(), "-p".into(), profile.as_str().into()];
        argv.extend(GATEWAY_COMMAND.map(OsString::from));
        let service = SlotService {
            argv,
            env: self.environment.clone(),
            dir: self.root().root().to_owned(),
            desired: home.join("gateway_desired.json"),
            actual: home.join("gateway_state.json"),
            log_dir: self.gateway_logs().join(profile.as_str()),
            boot: BootRule::AsBefore,
            stop_within: STOP_WITHIN + drain,
            ready_within: READY_WITHIN,
        };
        slot(profile.as_str(), service)
    }

    /// Returns the slot of the dashboard, which serves all profiles.
    pub(crate) fn dashboard(&self) -> Result<Slot, CommandFailure> {
        let root = self.root().root();
        let mut argv: Vec<OsString> = vec![self.program.clone().into()];
        argv.extend(DASHBOARD_COMMAND.map(OsString::from));
        let is_asked_for = is_on(&self.captured, DASHBOARD_VARIABLE);
        let service = SlotService {
            argv,
            env: self.environment.clone(),
            dir: root.to_owned(),
            desired: root.join("dashboard_desired.json"),
            actual: root.join("dashboard_state.json"),
            log_dir: vestal_api::dashboard_log_dir(self.root()),
            boot: if is_asked_for { BootRule::Always } else { BootRule::IfDesired },
            stop_within: DASHBOARD_STOP_WITHIN,
            ready_within: READY_WITHIN,
        };
        slot(DASHBOARD_SLOT, service)
    }

    /// Returns the directory that has a log for each gateway.
    pub(crate) fn gateway_logs(&self) -> PathBuf {
        self.root().logs_dir().join("gateways")
    }
}

fn slot(name: &str, service: SlotService) -> Result<Slot, CommandFailure> {
    let name = SlotName::new(name).map_err(|error| CommandFailure::new(error.to_string()))?;
    Ok(Slot { name, service })
}

impl SlotSource for HomeSlots {
    fn slots(&self) -> Vec<FoundSlot> {
        let names = self.root().profiles();
        let slots = names.iter().map(|name| self.slot(name)).chain([self.dashboard()]);
        let strays = self.profiles.strays().into_iter().map(|stray| FoundSlot::Broken {
            name: stray.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            reason: stray.reason,
        });
        let slots = slots.filter_map(Result::ok).map(|slot| FoundSlot::Slot(Box::new(slot)));
        slots.chain(strays).collect()
    }

    fn watched(&self) -> Vec<PathBuf> {
        // The home itself is not watched: it changes all the time.
        vec![self.root().profiles_dir()]
    }
}

/// Returns the environment of supervisors and gateways: that of this process, with the home, and
/// without a choice of profile, which is each gateway's own.
fn environment(context: &Context, root: &Home) -> BTreeMap<OsString, OsString> {
    let variables = context.environment().iter();
    let mut variables: BTreeMap<OsString, OsString> =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    variables.remove(std::ffi::OsStr::new("VESTAL_PROFILE"));
    variables.insert("VESTAL_HOME".into(), root.root().into());
    variables
}
