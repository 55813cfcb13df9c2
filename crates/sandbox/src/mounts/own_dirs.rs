//! The directories that Vestal keeps to itself: no sandbox sees them, whatever is mounted.

use std::path::{Path, PathBuf};

use vestal_config::{ConfigError, Settings};

use super::exposed::Exposed;
use super::stores;
use super::walk::{Reached, links_on_the_way};
use crate::backend::BackendError;
use crate::settings::SandboxSettings as _;
use crate::store::{HomeNotes, make_private_dir};

/// Where root keeps what all homes of this machine share. No sandbox sees it:
/// what is in it says what sandboxes are shown.
pub(crate) const MACHINE_DIR: &str = "/var/cache/vestal";

/// Our own directories, and who may see and write to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnDirs {
    /// The home that all profiles share.
    pub(super) root_home: PathBuf,
    /// Our own directories, which no sandbox sees.
    pub(crate) hidden: Vec<PathBuf>,
    /// Those of them that sandboxes write to.
    written: Vec<PathBuf>,
    /// Directories in them that are there to be mounted.
    lent: Vec<PathBuf>,
    /// Where sandboxes are on record, of all profiles.
    records: Vec<PathBuf>,
    /// The user's home on this machine.
    user_home: Option<PathBuf>,
    /// Links that lead to them. A sandbox that can replace one can put a home of its own
    /// in the place of ours.
    links: Vec<PathBuf>,
}

impl OwnDirs {
    /// Returns our own directories, by their real names.
    pub(crate) fn of(settings: &Settings) -> Result<Self, ConfigError> {
        let home = settings.home();
        let sandboxes = settings.sandboxes_dir()?.value;
        let usual = settings.environment().user_home().map(|home| home.join(".vestal"));
        let machine = rustix::process::geteuid().is_root().then(|| PathBuf::from(MACHINE_DIR));
        let stores = stores::known(home.root());
        let named: Vec<PathBuf> = [home.root().to_owned(), home.dir(), sandboxes.clone()]
            .into_iter()
            .chain(usual)
            .chain(machine)
            .chain(stores)
            // Everything is below the path that is empty.
            .filter(|dir| !dir.as_os_str().is_empty())
            .collect();
        let links = named.iter().flat_map(|dir| links_on_the_way(dir)).collect();
        // What says which of two homes is the original. No link on the way from
        // the user's home to it is followed, so links need no protection.
        let user_home = settings.environment().user_home().map(real);
        let notes = user_home.map(|home| HomeNotes::of_user(&home).path());
        let hidden = named.into_iter().map(real).chain(notes).collect();
        Ok(Self {
            root_home: home.root().to_owned(),
            records: stores::records(home.root(), &sandboxes),
            user_home: settings.environment().user_home(),
            hidden,
            written: vec![sandboxes],
            lent: settings.work_dirs().into_iter().map(real).collect(),
            links,
        })
    }

    /// Returns those of a home that has nothing in it.
    #[cfg(test)]
    pub(super) fn bare(root_home: PathBuf) -> Self {
        Self {
            root_home,
            hidden: Vec::new(),
            written: Vec::new(),
            lent: Vec::new(),
            records: Vec::new(),
            user_home: None,
            links: Vec::new(),
        }
    }

    /// Returns what sandboxes can or could write to.
    pub(super) fn exposed(&self) -> std::io::Result<Exposed> {
        let before = || stores::given(&self.records, self.user_home.as_deref());
        Exposed::read(&self.root_home, &self.written, before)
    }

    /// Makes those of our directories that are missing below one that a sandbox is
    /// to write to: there has to be something to cover, or it would be the sandbox
    /// that makes a home for us. Where that fails nobody else can make it either.
    pub(super) fn make_missing(&self, given: &Path) {
        for dir in self.hidden.iter().filter(|dir| dir.starts_with(given) && !dir.exists()) {
            make_private_dir(dir).ok();
        }
    }

    /// Refuses what is in the Vestal home, but for what is there to be mounted.
    pub(super) fn refuse_ours(&self, asked: &Path, reached: &Reached) -> Result<(), BackendError> {
        let within = |dirs: &[PathBuf]| dirs.iter().any(|dir| reached.path.starts_with(dir));
        let lent =
            self.lent.iter().any(|dir| reached.path.starts_with(dir) && reached.path != *dir);
        if !within(&self.hidden) || lent {
            return Ok(());
        }
        Err(BackendError::Advised {
            problem: format!(
                "{} is in the Vestal home, which no sandbox sees: settings, secrets and other \
                 sandboxes are in it",
                asked.display()
            ),
            advice:
                "mount a directory elsewhere; if the sandbox was made with it: vestal rebuild, once \
                     the setting is changed"
                    .to_owned(),
        })
    }

    /// Refuses a directory in which a sandbox could replace a link that leads to the
    /// Vestal home: covering what the link names does not keep the link.
    pub(super) fn refuse_links(&self, asked: &Path, reached: &Reached) -> Result<(), BackendError> {
        let Some(link) = self.links.iter().find(|link| link.starts_with(&reached.path)) else {
            return Ok(());
        };
        Err(BackendError::Advised {
            problem: format!(
                "{} cannot be mounted: {} is in it, a link that leads to the Vestal home, and a \
                 sandbox could replace it",
                asked.display(),
                link.display()
            ),
            advice: "set VESTAL_HOME (or terminal.sandbox_dir) to the directory itself, without a \
                     link, and remove the link; or mount a directory that does not hold the link"
                .to_owned(),
        })
    }
}

/// Returns a directory by its real name; it need not be there.
pub(super) fn real(dir: PathBuf) -> PathBuf {
    let known = dir.canonicalize().ok();
    let by_parent = || Some(dir.parent()?.canonicalize().ok()?.join(dir.file_name()?));
    known.or_else(by_parent).unwrap_or(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::walk::walk;

    #[test]
    fn a_directory_whose_link_leads_to_the_home_is_not_given_away() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("user/project")).unwrap();
        std::fs::create_dir_all(root.join("disk/vestal")).unwrap();
        let link = root.join("user/.vestal");
        std::os::unix::fs::symlink(root.join("disk/vestal"), &link).unwrap();
        let own_dirs = OwnDirs {
            hidden: vec![root.join("disk/vestal")],
            links: links_on_the_way(&link),
            ..OwnDirs::bare(link.clone())
        };
        let refused = |path: &str| {
            let path = root.join(path);
            let reached = walk(&path, |_, _| false).unwrap();
            own_dirs.refuse_links(&path, &reached).map_err(|error| error.to_string())
        };
        let said = refused("user").unwrap_err();
        assert!(said.contains(&format!("{} is in it", link.display())), "{said}");
        assert_eq!(refused("user/project"), Ok(()));
        assert_eq!(refused("disk"), Ok(()), "what is covered there is the home itself");
    }
}
