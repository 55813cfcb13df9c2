//! What a backend declares before it has made anything.

use std::io;
use std::path::{Path, PathBuf};

use vestal_config::{ConfigError, Settings};
use vestal_process::ProcessId;

use super::{BackendError, Instance, Locator};
use crate::spec::Tightening;

/// What holds for all instances of a backend. Callers ask for one of these
/// facts, never for the name.
///
/// A new backend says what differs from [`Declaration::REMOTE`].
#[derive(Debug, Clone, Copy)]
pub struct Declaration {
    /// The backend's name, as in `terminal.backend`.
    pub name: &'static str,
    /// Other names that stand for it wherever its name is read.
    pub aliases: &'static [&'static str],
    /// Names that people try for it, each with the advice they get.
    pub mistaken_names: &'static [(&'static str, &'static str)],
    /// How far instances keep commands away from the host.
    pub confinement: Confinement,
    /// Which directories of the host instances can have.
    pub host_directories: HostDirectories,
    /// Returns where work is in an instance that keeps commands away from the
    /// host.
    pub workspace: fn(&Locator) -> PathBuf,
    /// Whether instances are made from images.
    pub takes_images: bool,
    /// The setting that names the image, for a backend that takes images.
    pub image_setting: Option<&'static str>,
    /// The setting that names another system for instances, for a backend
    /// without images.
    pub system_setting: Option<&'static str>,
    /// Whether looking at instances asks an engine, which may have to be
    /// started for it.
    pub asks_engine: bool,
    /// What to do when the backend does not answer.
    pub hung_advice: &'static str,
    /// What it takes to apply changed settings to an instance.
    pub remedy: Remedy,
    /// What tells since when a stopped instance has idled.
    pub idle_source: IdleSource,
    /// Whose environment jobs start with.
    pub job_environment: JobEnvironment,
    /// Returns whether the byte stream to an instance's guest can be cut while the
    /// guest is well: a network or an engine is in between.
    pub can_be_cut_off: fn(&Locator) -> bool,
    /// The rule for each setting that shapes instances.
    pub tightening: fn(&str) -> Tightening,
    /// Returns the processes of the host that are recorded as an instance's
    /// guest. What the sandbox itself could have written does not count.
    pub host_processes: fn(&Instance) -> Vec<HostProcess>,
    /// Makes the copied directory of an instance one of the sandbox with this
    /// key hash, and returns whether there is a system in it to continue with.
    /// Absent: an instance is not in its directory.
    pub adopt_copy: Option<fn(&Path, &str) -> io::Result<bool>>,
    /// Returns the backend that takes its place where these settings name it, if one does. What
    /// is made then is the other's, whose name is recorded.
    pub replaced_by: fn(&Settings) -> Result<Option<&'static str>, ConfigError>,
}

impl Declaration {
    /// What holds for a backend that has nothing on this machine.
    pub const REMOTE: Self = Self {
        name: "remote",
        aliases: &[],
        mistaken_names: &[],
        confinement: Confinement::Remote,
        host_directories: HostDirectories::None,
        workspace: |_| PathBuf::from(WORKSPACE),
        takes_images: false,
        image_setting: None,
        system_setting: None,
        asks_engine: true,
        hung_advice: "check the connection to it and try again",
        remedy: Remedy::Recreate,
        idle_source: IdleSource::EndTime,
        job_environment: JobEnvironment::Guests,
        can_be_cut_off: |_| true,
        tightening: |_| Tightening::Never,
        host_processes: |_| Vec::new(),
        adopt_copy: None,
        replaced_by: |_| Ok(None),
    };

    /// Returns whether a directory of the host can be the workspace of an instance.
    pub fn takes_host_directory(&self) -> bool {
        matches!(self.host_directories, HostDirectories::Mounted | HostDirectories::Synced)
    }
}

/// Where work is in a sandbox that has a system of its own.
pub(crate) const WORKSPACE: &str = "/workspace";

/// How far instances keep commands away from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// Not at all.
    None,
    /// In a system of their own on this machine.
    Contained,
    /// On another machine, with no files or processes here.
    Remote,
}

/// Which directories of the host instances can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostDirectories {
    /// All of them: commands run on the host itself.
    All,
    /// Those that are mounted on request.
    Mounted,
    /// A copy of one, as the workspace: it is kept the same as the original, before a command
    /// and after it.
    Synced,
    /// None.
    None,
}

/// What tells since when a stopped instance has idled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleSource {
    /// The files its guest left in directories of this machine.
    GuestFiles,
    /// The time of its end, as the backend knows it.
    EndTime,
}

/// How changed settings reach an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// By stopping it: they are taken at the next start.
    Restart,
    /// By making a new one; files are kept.
    Recreate,
}

/// Whose environment jobs start with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnvironment {
    /// The caller's, stripped of secrets, each time again.
    Callers,
    /// The instance's own.
    Guests,
}

/// A process of the host that is recorded as a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostProcess {
    /// Exactly this process.
    Known(ProcessId),
    /// Whichever process has this number: it may be another one by now.
    Number(u32),
}

/// Whether a backend works on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It works.
    Works {
        /// What is worth knowing about it.
        notes: Vec<String>,
    },
    /// It does not.
    Missing {
        /// What is missing.
        reason: String,
        /// What to do about it.
        advice: String,
    },
    /// A setting that it needs has a wrong value, so nobody can tell. Another
    /// backend is not an answer to that: the setting has to be corrected.
    Misconfigured {
        /// What is wrong.
        problem: String,
        /// What to do about it.
        advice: String,
    },
}

impl Availability {
    /// Returns what a probe has found: notes, or why there is no such backend. `advice` is for errors
    /// that have none.
    pub fn of_probe(probed: Result<Vec<String>, BackendError>, advice: &str) -> Self {
        match probed {
            Ok(notes) => Self::Works { notes },
            Err(BackendError::Config(error)) => Self::Misconfigured {
                problem: error.to_string(),
                advice: "correct the setting".to_owned(),
            },
            Err(error) => Self::Missing {
                advice: error.advice().unwrap_or(advice).to_owned(),
                reason: error.to_string(),
            },
        }
    }
}
