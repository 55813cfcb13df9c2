//! Which slots there are, one for each profile, and how a gateway is started in one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::time::Duration;

use vestal_config::{Environment, Home, ProfileName, Settings};
use vestal_profiles::Profiles;
use vestal_supervisor::{Found, Slot, SlotName, SlotSource};

use crate::context::Context;
use crate::error::Failure;

/// What follows `vestal -p NAME` in a slot.
const GATEWAY_COMMAND: [&str; 3] = ["gateway", "run", "--supervised"];

/// From SIGTERM to SIGKILL, beyond the time that the settings give running turns: to interrupt
/// them, to let the dispatcher finish what it has claimed, and to let go of sandboxes.
const STOP_WITHIN: Duration = Duration::from_secs(90);
/// A gateway that is not ready by then is started again.
const READY_WITHIN: Duration = Duration::from_mins(2);

/// A slot for each profile of a home.
#[derive(Debug, Clone)]
pub(crate) struct ProfileSlots {
    profiles: Profiles,
    program: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    captured: Environment,
}

impl ProfileSlots {
    pub(crate) fn new(context: &Context) -> Result<Self, Failure> {
        let profiles = context.profiles()?;
        let program = std::env::current_exe()
            .map_err(|error| Failure::io("find the program vestal", &error))?;
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
    pub(crate) fn make_profiles_dir(&self) -> Result<(), Failure> {
        let dir = self.root().profiles_dir();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .map_err(|error| Failure::io(&format!("make {}", dir.display()), &error))
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

    /// Returns the slot of a profile, which need not exist.
    pub(crate) fn slot(&self, profile: &ProfileName) -> Result<Slot, Failure> {
        let name = SlotName::new(profile.as_str());
        let name = name.map_err(|error| Failure::new(error.to_string()))?;
        let home = self.root().sibling(profile.clone());
        // Settings that cannot be read are the gateway's to complain about.
        let settings =
            Settings::load(&vestal_api::schema(), home.clone(), self.captured.clone(), Vec::new());
        let drain = settings.get(&vestal_api::keys::AGENT_RESTART_DRAIN_TIMEOUT);
        let drain = drain.map_or(Duration::ZERO, |found| found.value.duration());
        let mut argv: Vec<OsString> =
            vec![self.program.clone().into(), "-p".into(), profile.as_str().into()];
        argv.extend(GATEWAY_COMMAND.map(OsString::from));
        Ok(Slot {
            name,
            argv,
            env: self.environment.clone(),
            dir: self.root().root().to_owned(),
            desired: home.dir().join("gateway_desired.json"),
            actual: home.dir().join("gateway_state.json"),
            stop_within: STOP_WITHIN + drain,
            ready_within: READY_WITHIN,
        })
    }
}

impl SlotSource for ProfileSlots {
    fn slots(&self) -> Vec<Found> {
        let listing = self.profiles.list(None);
        let names = self.root().profiles();
        let slots = names.iter().filter_map(|name| self.slot(name).ok());
        let strays = listing.strays.into_iter().map(|stray| Found::Broken {
            name: stray.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            reason: stray.reason,
        });
        slots.map(|slot| Found::Slot(Box::new(slot))).chain(strays).collect()
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
