//! The commands `survey` and `etc`, and the facts as they go over a wire.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use minicbor::bytes::ByteVec;
use vestal_wire::UserLimits;
use vestal_wire::survey::{MachineSurvey, SurveyedDir, SurveyedKind};

use super::etc::{EtcScan, make_directory};
use super::facts::{HostFacts, SYSTEM_DIRS, SystemDir, SystemDirKind, UserQuotas};
use crate::program::{self, UsageError};

/// Longest report of a machine that is taken.
pub const MAX_REPORT: usize = 1 << 20;

/// Most restricted directories that are taken.
const MAX_RESTRICTED: usize = 4096;

/// Longest path that is taken.
const MAX_PATH: usize = 4096;

/// Settings of the kernel that can forbid namespaces.
const SYSCTLS: [&str; 3] = [
    "kernel.unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns",
    "user.max_user_namespaces",
];

/// Returns the report of this machine. It says nothing of what only sandboxes with layers or
/// further users need: package databases and subordinate ids.
pub(super) fn to_report(facts: &HostFacts) -> MachineSurvey {
    let bytes = |path: &Path| ByteVec::from(path.as_os_str().as_bytes().to_vec());
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let dir = |dir: &SystemDir| SurveyedDir {
        name: dir.name.to_owned(),
        kind: match &dir.kind {
            SystemDirKind::Directory { source, mode } => {
                SurveyedKind::Directory { source: bytes(source), mode: *mode }
            }
            SystemDirKind::Link(text) => {
                SurveyedKind::Link { text: text.as_bytes().to_vec().into() }
            }
        },
    };
    let sysctls = SYSCTLS.into_iter().filter_map(|name| {
        let value = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).ok()?;
        Some((name.to_owned(), value.trim().to_owned()))
    });
    MachineSurvey {
        uid: facts.uid,
        gid: facts.gid,
        user: facts.user.clone(),
        system: facts.system.iter().map(dir).collect(),
        restricted: facts.restricted.iter().map(|path| bytes(path)).collect(),
        has_shell: facts.has_shell,
        quotas: UserLimits {
            inotify_instances: facts.quotas.inotify_instances,
            inotify_watches: facts.quotas.inotify_watches,
            pending_signals: facts.quotas.pending_signals,
            message_queues: facts.quotas.message_queues,
        },
        uid_map: text("/proc/self/uid_map"),
        gid_map: text("/proc/self/gid_map"),
        sysctls: sysctls.collect(),
    }
}

/// Returns the facts that a machine reports; nothing if they cannot be those of a machine.
pub fn from_report(report: &MachineSurvey) -> Option<HostFacts> {
    let system = report.system.iter().map(|dir| {
        let name = SYSTEM_DIRS.into_iter().find(|name| *name == dir.name)?;
        let kind = match &dir.kind {
            SurveyedKind::Directory { source, mode } => {
                SystemDirKind::Directory { source: plain_path(source)?, mode: mode & 0o777 }
            }
            SurveyedKind::Link { text } => {
                let text = OsString::from_vec(text.to_vec());
                let fits = !text.is_empty() && text.len() <= MAX_PATH;
                SystemDirKind::Link(Some(text).filter(|_| fits)?)
            }
        };
        Some(SystemDir { name, kind })
    });
    let restricted = report.restricted.iter().take(MAX_RESTRICTED + 1);
    let restricted: Vec<PathBuf> =
        restricted.map(|path| plain_path(path)).collect::<Option<_>>()?;
    let fits = restricted.len() <= MAX_RESTRICTED && report.system.len() <= SYSTEM_DIRS.len();
    Some(HostFacts {
        uid: report.uid,
        gid: report.gid,
        user: report.user.clone(),
        system: system.collect::<Option<_>>()?,
        packages: Vec::new(),
        restricted,
        has_shell: report.has_shell,
        quotas: UserQuotas {
            inotify_instances: report.quotas.inotify_instances,
            inotify_watches: report.quotas.inotify_watches,
            pending_signals: report.quotas.pending_signals,
            message_queues: report.quotas.message_queues,
        },
        helpers: None,
        sub_uids: Vec::new(),
        sub_gids: Vec::new(),
    })
    .filter(|_| fits)
}

/// Returns an absolute path without `.` and `..`.
fn plain_path(bytes: &[u8]) -> Option<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(bytes.to_vec()));
    let is_plain =
        path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let fits = path.is_absolute() && is_plain && bytes.len() <= MAX_PATH && !bytes.contains(&0);
    fits.then_some(path)
}

/// Runs the command `survey`.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    if let Some(extra) = arguments.next() {
        return program::usage_error(&UsageError::UnknownOption(extra.display().to_string()));
    }
    let written = vestal_wire::encode(&to_report(&HostFacts::gather()))
        .map_err(io::Error::other)
        .and_then(|bytes| {
            let mut output = io::stdout().lock();
            output.write_all(&bytes)?;
            output.flush()
        });
    ended(written)
}

/// Runs the command `etc`.
pub(crate) fn main_of_etc(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(dir), None) = (arguments.next(), arguments.next()) else {
        return program::usage_error(&UsageError::Missing("one directory"));
    };
    ended(snapshot(dir.as_ref()))
}

fn snapshot(dir: &Path) -> io::Result<()> {
    make_directory(dir)?;
    EtcScan::of(Path::new("/")).write(dir)
}

fn ended(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            program::print_error(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_arrive_as_they_were_sent_but_for_what_layers_and_further_users_need() {
        let facts = HostFacts::gather();
        let bytes = vestal_wire::encode(&to_report(&facts)).unwrap();
        assert!(bytes.len() < MAX_REPORT);
        let report: MachineSurvey = vestal_wire::decode(&bytes).unwrap();
        let expected = HostFacts {
            packages: Vec::new(),
            helpers: None,
            sub_uids: Vec::new(),
            sub_gids: Vec::new(),
            ..facts
        };
        assert_eq!(from_report(&report), Some(expected));
    }

    #[test]
    fn facts_that_no_machine_has_are_refused() {
        let report = to_report(&HostFacts::gather());
        let dir = |name: &str, source: &str| SurveyedDir {
            name: name.to_owned(),
            kind: SurveyedKind::Directory {
                source: source.as_bytes().to_vec().into(),
                mode: 0o755,
            },
        };
        let with = |dir| MachineSurvey { system: vec![dir], ..report.clone() };
        for wrong in [
            with(dir("home", "/home")),
            with(dir("usr", "usr")),
            with(dir("usr", "/usr/../etc")),
            with(dir("usr", "/usr\0")),
            MachineSurvey { system: vec![dir("usr", "/usr"); 99], ..report.clone() },
            MachineSurvey { restricted: vec![b"/x".to_vec().into(); 5000], ..report.clone() },
        ] {
            assert_eq!(from_report(&wrong), None, "{wrong:?}");
        }
    }
}
