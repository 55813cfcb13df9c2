//! Whether sandboxes can be built on this machine, found out by building one.
//!
//! Nothing less tells: a kernel that lets a user have namespaces may deny the
//! mounts in them, and a filesystem says only when it is mounted that it cannot
//! hold layers.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use vestal_wire::Purpose;

use super::backend::Native;
use super::facts::Facts;
use super::plan::{self, HostDirs, PlanInput};
use super::private::Private;
use super::settings::NativeSettings;
use super::stage::Build;
use super::tier::Tier;
use super::{choose, make_dirs, numbers, rootfs};
use crate::backend::{Availability, BackendError};
use crate::backends::boot::make_open_dir;
use crate::key::random_hex;
use crate::mounts::Mounts;
use crate::settings::SandboxSettings as _;
use crate::store::{TRIAL, list_rubbish, make_private_dir, remove_tree};
use crate::{Overrides, ProgressSink};

/// What a trial has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trial {
    /// A sandbox could be built.
    Passed {
        /// What its system directories are.
        tier: Tier,
        /// What is missing for a better tier.
        missing: Vec<String>,
    },
    /// None could.
    Failed {
        /// What is wrong.
        problem: String,
        /// What to do about it.
        advice: String,
    },
    /// None was tried: a setting is wrong.
    Misconfigured {
        /// What is wrong.
        problem: String,
        /// What to do about it.
        advice: String,
    },
}

/// Why a trial came to nothing.
#[derive(Debug)]
enum TrialError {
    /// The settings ask for what is not there.
    Settings(BackendError),
    /// The machine does not let it be built.
    Machine(BackendError),
}

impl From<BackendError> for TrialError {
    fn from(error: BackendError) -> Self {
        match error {
            error @ BackendError::Config(_) => Self::Settings(error),
            error => Self::Machine(error),
        }
    }
}

impl Trial {
    /// Returns whether the backend works.
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
    /// Builds a sandbox up to the point at which its guest would begin.
    pub(super) async fn try_out(&self) -> Trial {
        match self.build_trial().await {
            Ok((tier, missing)) => Trial::Passed { tier, missing },
            Err(TrialError::Machine(error)) => Trial::Failed {
                advice: error.advice().unwrap_or("use the backend docker or local").to_owned(),
                problem: error.to_string(),
            },
            Err(TrialError::Settings(error)) => Trial::Misconfigured {
                advice: error.advice().unwrap_or("mend the setting").to_owned(),
                problem: error.to_string(),
            },
        }
    }

    async fn build_trial(&self) -> Result<(Tier, Vec<String>), TrialError> {
        let mut settings = NativeSettings::read(&self.settings, &Overrides::default())
            .map_err(BackendError::from)?;
        // What the user mounts is not what is to be seen.
        settings.volumes = crate::settings::Volumes::EMPTY;
        let facts = Facts::gather();
        let tier = choose::tier(&settings, &facts);
        let users = plan::users(tier, &facts);
        numbers::check(&users)?;
        rootfs::check(&settings).map_err(TrialError::Settings)?;
        // An archive is unpacked for those who want a sandbox, not for those who
        // ask whether they could have one.
        let rootfs = match &settings.rootfs {
            Some(setting) if setting.path.is_dir() => {
                let provided = self.rootfs(&settings, &ProgressSink::default()).await;
                provided.map_err(TrialError::Settings)?
            }
            _ => None,
        };
        let sandboxes = self.settings.sandboxes_dir().map_err(BackendError::from)?.value;
        let ground = Ground::make(&sandboxes)?;
        let dirs = HostDirs::of_trial(&ground.dir);
        let picture = self.picture()?;
        let private = match tier {
            // Whether something can be hidden, not what there is to hide.
            Tier::Overlay => Private::made_up(&facts),
            Tier::ReadOnly | Tier::Rootfs => Private::default(),
        };
        let missing = choose::lacking(tier, &facts, &users);
        let planned = plan::enclosure(&PlanInput {
            dirs: &dirs,
            settings: &settings,
            facts: &facts,
            tier,
            users,
            mounts: &Mounts::default(),
            private: &private,
            etc_dir: &picture.dir,
            rootfs: rootfs.as_ref().map(|rootfs| &*rootfs.dir),
            cgroups: &[],
            max_processes: None,
            purpose: Purpose::Trial,
        })?;
        let built: Result<(), BackendError> = async {
            make_dirs::make(&planned.make)?;
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
            build.carry_out().await.map(drop)
        }
        .await;
        self.remove_all(&ground.dir).await?;
        built.map(|()| (tier, missing)).map_err(TrialError::from)
    }
}

/// Where a trial takes place: on the filesystem that sandboxes are on.
struct Ground {
    dir: PathBuf,
    /// Says that its process is alive.
    _lock: fs::File,
}

impl Ground {
    fn make(sandboxes: &Path) -> Result<Self, BackendError> {
        for left in list_rubbish(sandboxes) {
            // What cannot be removed now is met again next time.
            remove_tree(&left).ok();
        }
        let random = random_hex::<6>().map_err(BackendError::io("name a trial"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_says_what_works_and_what_is_missing() {
        let passed = Trial::Passed { tier: Tier::ReadOnly, missing: vec!["more".to_owned()] };
        let Availability::Works { notes } = passed.availability() else { panic!("it works") };
        assert!(notes[0].starts_with("tier read-only"), "{notes:?}");
        assert_eq!(notes[1], "more");
        let failed = Trial::Failed { problem: "p".to_owned(), advice: "a".to_owned() };
        let expected = Availability::Missing { reason: "p".to_owned(), advice: "a".to_owned() };
        assert_eq!(failed.availability(), expected);
    }
}
