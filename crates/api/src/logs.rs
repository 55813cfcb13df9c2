//! The logs of a home: which there are, where, and what their lines mean.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use vestal_config::{Home, ProfileName};
use vestal_logs::{Level, LogFiles, LogInput};

/// One of the logs that an operator reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogSource {
    /// `logs/agent.log` of a profile: everything that its processes report, of information and above.
    Agent,
    /// `logs/errors.log` of a profile: warnings and errors of that, kept for longer.
    Errors,
    /// `logs/gateways/PROFILE/current` of the root home: what the gateway prints, and what its
    /// supervisor does with it.
    Gateway,
    /// `logs/container-boot.log` of the root home: what was started at boot, and why not.
    Boot,
    /// `logs/supervisor.log` of the root home: what a supervisor in the background says about itself.
    Supervisor,
    /// `logs/dashboard/current` of the root home: what a supervised dashboard prints, and what its
    /// supervisor does with it.
    Dashboard,
}

impl LogSource {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Agent, Self::Errors, Self::Gateway, Self::Boot, Self::Supervisor, Self::Dashboard];

    /// Those about a profile: all but the dashboard's, which serves every profile.
    pub const OF_PROFILE: [Self; 5] =
        [Self::Agent, Self::Errors, Self::Gateway, Self::Boot, Self::Supervisor];

    /// Returns its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Errors => "errors",
            Self::Gateway => "gateway",
            Self::Boot => "boot",
            Self::Supervisor => "supervisor",
            Self::Dashboard => "dashboard",
        }
    }
}

/// A word that names no log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownLogSource;

impl fmt::Display for UnknownLogSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a log is agent, errors, gateway, boot, supervisor or dashboard")
    }
}

impl std::error::Error for UnknownLogSource {}

impl FromStr for LogSource {
    type Err = UnknownLogSource;

    fn from_str(word: &str) -> Result<Self, UnknownLogSource> {
        Self::ALL.into_iter().find(|source| source.word() == word).ok_or(UnknownLogSource)
    }
}

/// Returns the log of everything in a profile's directory of logs.
pub fn agent_log_files(logs_dir: &Path) -> LogFiles {
    of_profile(LogFiles::new(logs_dir.join("agent.log"), 5_000_000, 3), logs_dir)
}

/// Returns the log of warnings and errors in a profile's directory of logs.
pub fn errors_log_files(logs_dir: &Path) -> LogFiles {
    of_profile(LogFiles::new(logs_dir.join("errors.log"), 2_000_000, 2), logs_dir)
}

/// A process of a profile that was renamed or deleted must not make its home again.
fn of_profile(files: LogFiles, logs_dir: &Path) -> LogFiles {
    match logs_dir.parent() {
        Some(home) => files.within(home),
        None => files,
    }
}

/// Returns the directory of the log of a supervised dashboard.
pub fn dashboard_log_dir(root: &Home) -> PathBuf {
    root.logs_dir().join("dashboard")
}

/// Returns the logs of some profiles, or, without any, of all that there are.
pub fn log_sources(
    root: &Home,
    profiles: Option<&[ProfileName]>,
    wanted: &[LogSource],
) -> Vec<LogInput> {
    let logs = root.logs_dir();
    let all;
    let of = match profiles {
        Some(profiles) => profiles,
        None => {
            all = root.profiles();
            &all
        }
    };
    let mut sources = Vec::new();
    for kind in LogSource::ALL.into_iter().filter(|kind| wanted.contains(kind)) {
        let shared = match kind {
            // What was decided about a directory that is not a profile is reported to a caller that asks for all.
            LogSource::Boot if profiles.is_none() => Some(vestal_supervisor::boot_log_files(&logs)),
            LogSource::Supervisor => Some(vestal_supervisor::detached_log_files(&logs)),
            LogSource::Dashboard => {
                Some(vestal_supervisor::slot_log_files(&dashboard_log_dir(root)))
            }
            _ => None,
        };
        if let Some(files) = shared {
            sources.push(LogInput { level_of, ..LogInput::new(kind.word(), None, files) });
            continue;
        }
        for profile in of {
            let own = root.sibling(profile.clone()).logs_dir();
            let files = match kind {
                LogSource::Agent => agent_log_files(&own),
                LogSource::Errors => errors_log_files(&own),
                LogSource::Gateway => {
                    let dir = logs.join("gateways").join(profile.as_str());
                    vestal_supervisor::slot_log_files(&dir)
                }
                LogSource::Boot => vestal_supervisor::boot_log_files(&logs),
                LogSource::Supervisor | LogSource::Dashboard => continue,
            };
            let only = (kind == LogSource::Boot).then(|| format!("profile={profile} "));
            let owner = Some(profile.to_string());
            sources.push(LogInput { level_of, only, ..LogInput::new(kind.word(), owner, files) });
        }
    }
    sources
}

/// Returns the level of what a program printed, or a supervisor noted, in words.
fn level_of(message: &str) -> Option<Level> {
    const WARNINGS: [&str; 7] = [
        "ended by signal ",
        "not ready ",
        "not started",
        "cannot ",
        "next start in ",
        "stays down ",
        "left by ",
    ];
    let has_panicked = message.starts_with("thread '") && message.contains(" panicked at ");
    if message.starts_with("error: ") || message.contains(" action=failed") || has_panicked {
        return Some(Level::Error);
    }
    if message.starts_with("warning: ") {
        return Some(Level::Warn);
    }
    if message.starts_with("note: ") {
        return Some(Level::Info);
    }
    let note = message.strip_prefix("supervisor: ")?;
    let has_failed = note.strip_prefix("exited with code ").is_some_and(|code| code != "0");
    let is_warning = has_failed || WARNINGS.iter().any(|words| note.starts_with(words));
    Some(if is_warning { Level::Warn } else { Level::Info })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_in_words_has_a_level() {
        let levels = [
            "error: the port is taken",
            "warning: no such setting",
            "note: serving",
            "supervisor: exited with code 1",
            "supervisor: exited with code 0",
            "supervisor: next start in 5 s",
            "supervisor: ready",
            "profile=x prior_state=missing action=failed reason=damaged",
            "profile=x prior_state=missing action=registered",
            "an error: in the middle",
            "thread 'main' panicked at src/main.rs:1:1:",
        ]
        .map(level_of);
        let (info, warn, error) = (Some(Level::Info), Some(Level::Warn), Some(Level::Error));
        let expected = [error, warn, info, warn, info, warn, info, error, None, None, error];
        assert_eq!(levels, expected);
    }

    #[test]
    fn a_profile_has_its_own_logs_and_its_part_of_those_of_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = Home::at(dir.path());
        let work: ProfileName = ProfileName::new("work").unwrap();
        let shown = |sources: Vec<LogInput>| -> Vec<String> {
            let show = |source: &LogInput| {
                let path = source.files.path().strip_prefix(dir.path()).unwrap();
                let owner = source.owner.as_deref().unwrap_or("-");
                format!("{} {owner} {}", source.name, path.display())
            };
            sources.iter().map(show).collect()
        };
        assert_eq!(
            shown(log_sources(&root, Some(&[work]), &LogSource::OF_PROFILE)),
            [
                "agent work profiles/work/logs/agent.log",
                "errors work profiles/work/logs/errors.log",
                "gateway work logs/gateways/work/current",
                "boot work logs/container-boot.log",
                "supervisor - logs/supervisor.log",
            ]
        );
        assert_eq!(
            shown(log_sources(&root, None, &[LogSource::Boot, LogSource::Agent])),
            ["agent default logs/agent.log", "boot - logs/container-boot.log"]
        );
        assert_eq!(
            shown(log_sources(&root, Some(&[]), &[LogSource::Dashboard])),
            ["dashboard - logs/dashboard/current"]
        );
    }
}
