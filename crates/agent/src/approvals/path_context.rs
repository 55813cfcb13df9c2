//! Where commands run, as far as it matters to what they can harm.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use vestal_sandbox::{Opening, Reach};

use super::paths;
use super::policy::ApprovalPolicy;

/// Where commands run: which paths mean what there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PathContext {
    /// The user's home, if commands see it.
    pub(super) user_home: Option<String>,
    /// The directory of Vestal's own files on the host.
    pub(super) vestal_home: Option<String>,
    /// What of the host is mounted where: (in the sandbox, on the host). None
    /// where paths are the host's own.
    pub(super) mounts: Option<Vec<(String, String)>>,
    /// The directory in which a command begins, behind all links; none if nobody knows it.
    pub(super) dir: Option<String>,
    /// The directory that the conversation was opened in, behind all links; the same as `dir`
    /// where nothing is said.
    pub(super) opened: Option<String>,
    /// The user's home behind all links.
    pub(super) real_home: Option<String>,
    /// Whether the files of the commands are those that this process sees.
    pub(super) sees_files: bool,
    /// Variables of the session whose values may be text that runs when it is
    /// taken for a number.
    pub(super) suspects: HashSet<String>,
}

impl PathContext {
    /// Returns the context of a sandbox.
    pub(super) fn new(policy: &ApprovalPolicy, reach: &Reach) -> Self {
        let text = |path: &Option<std::path::PathBuf>| {
            path.as_deref().map(Path::to_string_lossy).map(std::borrow::Cow::into_owned)
        };
        let vestal_home = text(&policy.vestal_home);
        let user_home = text(&policy.user_home).filter(|home| home.len() > 1);
        let Reach::Mounts(openings) = reach else {
            return Self { user_home, vestal_home, ..Self::default() };
        };
        let mount = |opening: &Opening| match opening {
            Opening::Mount { host, target, read_only: false } => {
                Some((target.to_string_lossy().into_owned(), host.to_string_lossy().into_owned()))
            }
            Opening::Mount { .. } | Opening::Weakness(_) => None,
        };
        // Homes are compared on the host's side, after translation.
        let mounts = Some(openings.iter().filter_map(mount).collect());
        Self { user_home, vestal_home, mounts, ..Self::default() }
    }

    /// Returns the context of a command that begins in a directory, with or without
    /// a look at the files there.
    pub(super) fn in_dir(mut self, dir: Option<PathBuf>, sees_files: bool) -> Self {
        let real = |dir: &Path| {
            let real = std::fs::canonicalize(dir).ok().filter(|_| sees_files);
            real.unwrap_or_else(|| dir.to_owned()).to_string_lossy().into_owned()
        };
        self.sees_files = sees_files;
        self.real_home = self.user_home.as_deref().map(|home| real(Path::new(home)));
        let dir = dir.filter(|dir| dir.is_absolute()).map(|dir| real(&dir));
        self.dir = dir.map(|dir| paths::canonical(&dir, None, &self));
        self
    }

    /// Returns the context of a conversation that was opened in another directory than
    /// the one in which the command begins.
    pub(super) fn opened_in(self, opened: Option<PathBuf>, sees_files: bool) -> Self {
        let opened = self.clone().in_dir(opened, sees_files).dir;
        // Without it nothing tells what is the conversation's own.
        let dir = self.dir.clone().filter(|_| opened.is_some());
        Self { dir, opened, ..self }
    }

    /// Returns the directory below which a conversation may write.
    pub(super) fn own_dir(&self) -> Option<&str> {
        self.opened.as_deref().or(self.dir.as_deref())
    }

    /// Reports whether commands that run in this directory may change files of
    /// the host; none: where the session is, which nobody can know.
    pub(super) fn may_change_host(&self, dir: Option<&str>) -> bool {
        let Some(mounts) = &self.mounts else { return true };
        match dir.filter(|dir| dir.starts_with('/')) {
            Some(dir) => self.on_host(dir).is_some(),
            None => !mounts.is_empty(),
        }
    }

    /// Reports whether to remove everything at a canonical path is to remove
    /// all of a mounted directory, its repository, or what the host cannot do
    /// without. A path that is not absolute is taken from a mounted directory.
    pub(super) fn empties_mount(&self, path: &str) -> bool {
        let Some(mounts) = self.mounts.as_ref().filter(|mounts| !mounts.is_empty()) else {
            return false;
        };
        let all = paths::everything_in(path);
        if !all.starts_with(['/', '~']) {
            return matches!(all, "." | "*" | ".*" | ".git" | "..") || all.starts_with("../");
        }
        let on_host = Self { mounts: None, ..self.clone() };
        let host = self.on_host(all).map(|host| paths::canonical(&host, None, &on_host));
        let whole = |(target, _): &(String, String)| {
            let target = target.trim_end_matches('/');
            let above = format!("{}/", all.trim_end_matches('/'));
            target == all || target.starts_with(&above) || *all == format!("{target}/.git")
        };
        mounts.iter().any(whole) || host.is_some_and(|host| paths::irreplaceable(&host).is_some())
    }

    /// Returns where a path of the sandbox is on the host; nothing if it is only in the sandbox.
    pub(super) fn on_host(&self, path: &str) -> Option<String> {
        let Some(mounts) = &self.mounts else {
            return Some(path.to_owned());
        };
        let below = |(target, host): &(String, String)| {
            let rest = path.strip_prefix(target.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/'))
                .then(|| (target.len(), format!("{}{rest}", host.trim_end_matches('/'))))
        };
        mounts.iter().filter_map(below).max().map(|(_, host)| host)
    }
}
