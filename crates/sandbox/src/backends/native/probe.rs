//! Probing whether sandboxes can be built on this machine, by building one.
//!
//! Nothing less is certain: a kernel that allows user namespaces may deny mounts
//! in them, and a filesystem refuses overlay layers only when they are mounted.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use vestal_wire::Purpose;

use super::backend::Native;
use super::enforce::LimitMechanism;
use super::facts::HostFacts;
use super::launch::make_dirs;
use super::plan::{self, HostDirs, PlanInput, PlannedFor};
use super::private::PrivatePaths;
use super::settings::NativeSettings;
use super::stage::{Build, remove_tree_as_root};
use super::tier::{self, Tier};
use super::{cgroups, rootfs};
use crate::backend::{Availability, BackendError, DoctorNote};
use crate::backends::boot::make_open_dir;
use crate::backends::scope::SystemdScope;
use crate::key::random_hex;
use crate::mounts::Mounts;
use crate::settings::SandboxSettings as _;
use crate::store::{TRIAL, list_rubbish, make_private_dir, remove_tree};
use crate::{Overrides, ProgressSink};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProbeResult {
    Passed {
        tier: Tier,
        /// What is missing for a better tier.
        missing: Vec<String>,
    },
    /// The machine does not allow it.
    Failed { problem: String, advice: String },
    /// A setting is wrong; nothing was built.
    Misconfigured { problem: String, advice: String },
}

/// Why a probe failed.
#[derive(Debug)]
enum ProbeError {
    /// A setting is wrong.
    Settings(BackendError),
    /// The machine does not allow it.
    Machine(BackendError),
}

impl From<BackendError> for ProbeError {
    fn from(error: BackendError) -> Self {
        match error {
            error @ BackendError::Config(_) => Self::Settings(error),
            error => Self::Machine(error),
        }
    }
}

impl ProbeResult {
    /// Returns whether the backend is available.
    pub(super) fn availability(&self) -> Availability {
        match self {
            Self::Passed { tier, missing } => {
                let mut notes = vec![format!("tier {tier}: {}", tier.meaning())];
                notes.extend(missing.iter().cloned());
                Availability::Works { notes }
            }
            Self::Failed { problem, advice } => {
                Availability::Missing { reason: problem.clone(), advice: advice.clone() }
            }
            Self::Misconfigured { problem, advice } => {
                Availability::Misconfigured { problem: problem.clone(), advice: advice.clone() }
            }
        }
    }
}

impl Native {
    /// Builds a sandbox up to the point at which its guest would start.
    pub(super) async fn run_probe(&self) -> ProbeResult {
        match self.build_probe().await {
            Ok((tier, missing)) => ProbeResult::Passed { tier, missing },
            Err(ProbeError::Machine(error)) => ProbeResult::Failed {
                advice: error.advice().unwrap_or("use the backend docker or local").to_owned(),
                problem: error.to_string(),
            },
            Err(ProbeError::Settings(error)) => ProbeResult::Misconfigured {
                advice: error.advice().unwrap_or("correct the setting").to_owned(),
                problem: error.to_string(),
            },
        }
    }

    async fn build_probe(&self) -> Result<(Tier, Vec<String>), ProbeError> {
        let mut settings = NativeSettings::read(&self.settings, &Overrides::default())
            .map_err(BackendError::from)?;
        // The user's volumes are not part of the probe.
        settings.volumes = crate::settings::Volumes::EMPTY;
        let facts = HostFacts::gather();
        let tier = tier::choose(&settings, &facts);
        let users = plan::users(tier, &facts);
        tier::check_own_users(&users)?;
        rootfs::check(&settings).map_err(ProbeError::Settings)?;
        // An archive is only unpacked for a sandbox, not for a probe.
        let rootfs = match &settings.rootfs {
            Some(setting) if setting.path.is_dir() => {
                let provided = self.rootfs(&settings, &ProgressSink::default()).await;
                provided.map_err(ProbeError::Settings)?
            }
            _ => None,
        };
        let sandboxes = self.settings.sandboxes_dir().map_err(BackendError::from)?.value;
        let probe_dir = ProbeDir::make(&sandboxes)?;
        let dirs = HostDirs::of_probe(&probe_dir.dir);
        let snapshot = self.etc_snapshot()?;
        let private = match tier {
            // The probe tests whether paths can be hidden, not which.
            Tier::Overlay => PrivatePaths::placeholders(&facts),
            Tier::ReadOnly | Tier::Rootfs => PrivatePaths::default(),
        };
        let missing = tier::missing_for_next(tier, &facts, &users);
        let planned = plan::enclosure(&PlanInput {
            machine: PlannedFor::ThisMachine,
            dirs: &dirs,
            settings: &settings,
            facts: &facts,
            tier,
            users,
            mounts: &Mounts::default(),
            private: &private,
            etc_dir: &snapshot.dir,
            rootfs: rootfs.as_ref().map(|rootfs| &*rootfs.dir),
            cgroups: &[],
            max_processes: None,
            purpose: Purpose::Trial,
        })?;
        let built: Result<(), BackendError> = async {
            make_dirs(&planned.dirs_to_make)?;
            make_open_dir(&dirs.boot, 0o755).map_err(BackendError::io("make a directory"))?;
            let null = fs::File::open("/dev/null").map_err(BackendError::io("open /dev/null"))?;
            let build = Build {
                program: &self.stage()?,
                enclosure: &planned.enclosure,
                place: None,
                hold: null.into(),
                layers: &sandboxes,
                under_way: || (),
            };
            build.run().await.map(drop)
        }
        .await;
        remove_tree_as_root(&self.run_dir, &probe_dir.dir).await?;
        built.map(|()| (tier, missing)).map_err(ProbeError::from)
    }
}

/// The directory of a probe, on the filesystem of the sandboxes.
struct ProbeDir {
    dir: PathBuf,
    /// Shows other processes that this one is alive.
    _lock: fs::File,
}

impl ProbeDir {
    fn make(sandboxes: &Path) -> Result<Self, BackendError> {
        for left in list_rubbish(sandboxes) {
            // What cannot be removed now is left for the next probe.
            remove_tree(&left).ok();
        }
        let random = random_hex::<6>().map_err(BackendError::io("name a probe directory"))?;
        let dir = sandboxes.join(format!("{TRIAL}{random}"));
        let failed = || format!("make {}", dir.display());
        make_private_dir(&dir).map_err(|error| BackendError::Io {
            action: failed(),
            source: std::io::Error::other(error),
        })?;
        let lock = fs::File::open(&dir).map_err(BackendError::io(failed()))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| BackendError::io(failed())(error.into()))?;
        Ok(Self { dir, _lock: lock })
    }
}

/// Most control groups that are listed.
const MAX_LISTED: usize = 5;

/// Returns the notes of `vestal doctor` about native sandboxes.
pub(super) fn report(result: &ProbeResult, known: &BTreeSet<String>) -> Vec<DoctorNote> {
    let ProbeResult::Passed { tier, missing } = result else {
        // The probe's result already says what is wrong.
        return Vec::new();
    };
    let uid = rustix::process::geteuid().as_raw();
    let scope = SystemdScope::detect(uid);
    let mechanism = LimitMechanism::detect(scope.as_ref(), uid);
    let mut notes = vec![note("tier", format!("{tier}: {}", tier.meaning()), None)];
    for lack in missing {
        let (text, advice) = lack.split_once(": ").unwrap_or((lack, ""));
        notes.push(note("tier", text.to_owned(), Some(advice.to_owned())));
    }
    notes.push(limits_note(&mechanism));
    if let LimitMechanism::Groups(hierarchies) = &mechanism {
        notes.extend(stray_groups_note(&cgroups::stray_groups(hierarchies, known)));
    }
    if scope.is_some() {
        let text = "each sandbox has its own systemd scope and survives the session";
        notes.push(note("scope", text.to_owned(), None));
    }
    notes
}

/// Returns a note about control groups without a process that belong to no sandbox of
/// this profile. They may belong to another home; every start makes new ones.
fn stray_groups_note(groups: &[PathBuf]) -> Option<DoctorNote> {
    if groups.is_empty() {
        return None;
    }
    let named = groups.iter().take(MAX_LISTED).map(|group| group.display().to_string());
    let more = groups.len().saturating_sub(MAX_LISTED);
    let more = (more > 0).then(|| format!("{more} more"));
    let named = named.chain(more).collect::<Vec<_>>().join(", ");
    let text = format!("unused control groups: {named}");
    let advice = "they belong to removed sandboxes or to stopped ones of another home, and do no \
                  harm; to remove one: rmdir GROUP";
    Some(note("groups", text, Some(advice.to_owned())))
}

pub(in crate::backends) fn limits_note(mechanism: &LimitMechanism) -> DoctorNote {
    let (held, lost) = mechanism.controllers();
    let by = match mechanism {
        LimitMechanism::Systemd(_) => "systemd",
        LimitMechanism::Groups(_) => "control groups",
    };
    let text = if held.is_empty() {
        "only the number of processes can be limited".to_owned()
    } else {
        format!("the number of processes can be limited, and by {by}: {}", held.join(", "))
    };
    let advice = (!lost.is_empty()).then(|| {
        format!(
            "cannot be limited: {}; run vestal as root, or have systemd delegate the \
             controllers to your session",
            lost.join(", ")
        )
    });
    note("limits", text, advice)
}

fn note(topic: &str, text: String, advice: Option<String>) -> DoctorNote {
    DoctorNote { topic: topic.to_owned(), text, advice: advice.filter(|advice| !advice.is_empty()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_reports_what_works_and_what_is_missing() {
        let passed = ProbeResult::Passed { tier: Tier::ReadOnly, missing: vec!["more".to_owned()] };
        let Availability::Works { notes } = passed.availability() else { panic!("it works") };
        assert!(notes[0].starts_with("tier read-only"), "{notes:?}");
        assert_eq!(notes[1], "more");
        let failed = ProbeResult::Failed { problem: "p".to_owned(), advice: "a".to_owned() };
        let expected = Availability::Missing { reason: "p".to_owned(), advice: "a".to_owned() };
        assert_eq!(failed.availability(), expected);
    }
}
