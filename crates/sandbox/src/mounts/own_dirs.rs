//! The directories that Vestal keeps to itself: no sandbox sees them, whatever is mounted. Directories
//! for sandboxes that are elsewhere are written down, so that other profiles' commands know them.

#[cfg(test)]
#[path = "own_dirs_tests.rs"]
mod tests;

use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use vestal_config::{ConfigError, Settings};

use super::exposed::{Exposed, NAME};
use super::walk::{PathProblem, Reached, links_on_the_way, walk};
use crate::Error;
use crate::backend::BackendError;
use crate::key::hex;
use crate::overrides::BINDS;
use crate::settings::{SandboxSettings as _, Volume, VolumeSource, keys};
use crate::store::{HomeError, HomeNotes, StoreError, make_private_dir, read_regular, replace};

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
        let stores = known(home.root());
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
            records: records(home.root(), &sandboxes),
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
        let before = || given(&self.records, self.user_home.as_deref());
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

/// How the files begin that name such directories.
const PREFIX: &str = "store-";

/// Refuses a directory for sandboxes that another sandbox could write to before
/// it was one, and keeps any other in mind.
pub(crate) fn admit_store(settings: &Settings) -> Result<(), Error> {
    let home = settings.home();
    let setting = settings.sandboxes_dir()?;
    let sandboxes = real(setting.value);
    if [home.root().to_owned(), home.dir()].map(real).iter().any(|dir| sandboxes.starts_with(dir)) {
        return Ok(());
    }
    let notes = home.root().join(NAME);
    let note = notes.join(note_name(&sandboxes));
    if named_by(&note).is_some() {
        return Ok(());
    }
    let unreadable = |error| StoreError::io("read", &notes, error);
    let user_home = settings.environment().user_home();
    let before = || given(&records(home.root(), &sandboxes), user_home.as_deref());
    let exposed = Exposed::read(home.root(), &[], before).map_err(unreadable)?;
    // It need not be there yet.
    let there = sandboxes.ancestors().find(|dir| dir.symlink_metadata().is_ok());
    let way = walk(there.unwrap_or(&sandboxes), |at, found| exposed.holds(at, found));
    let within_reach = match way {
        Ok(reached) => reached.exposed,
        Err(PathProblem::Link { .. }) => true,
        Err(PathProblem::Io(error)) => return Err(unreadable(error).into()),
    };
    if within_reach {
        return Err(HomeError::ExposedSandboxes {
            sandboxes,
            source_of_dir: setting.source.to_string(),
        }
        .into());
    }
    make_private_dir(&notes)?;
    replace(&note, sandboxes.as_os_str().as_bytes())
        .map_err(|error| StoreError::io("write", &note, error))?;
    Ok(())
}

/// Returns the directories that were admitted.
fn known(root_home: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root_home.join(NAME)).into_iter().flatten().flatten();
    let notes = entries.filter(|entry| entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()));
    notes.filter_map(|note| named_by(&note.path())).collect()
}

/// Returns the directory that a note names. A note that was cut off while it was
/// written names another one than its own name says, and counts for nothing: the
/// beginning of a path would hide everything below it.
fn named_by(note: &Path) -> Option<PathBuf> {
    let dir = PathBuf::from(std::ffi::OsString::from_vec(read_regular(note).ok()?));
    let is_whole = note.file_name().is_some_and(|name| name == note_name(&dir).as_str());
    (dir.is_absolute() && is_whole).then_some(dir)
}

/// Returns the directories that hold sandboxes of any profile of a home.
fn records(root_home: &Path, current: &Path) -> Vec<PathBuf> {
    let profiles = fs::read_dir(root_home.join("profiles")).into_iter().flatten().flatten();
    let mut dirs: Vec<PathBuf> = profiles.map(|profile| profile.path().join("sandboxes")).collect();
    dirs.push(root_home.join("sandboxes"));
    dirs.push(current.to_owned());
    dirs.extend(known(root_home));
    dirs.sort();
    dirs.dedup();
    dirs
}

/// Returns what the recorded sandboxes were given to write to, by their records.
/// A record that cannot be read says nothing here, and is reported where
/// it is used.
fn given(records: &[PathBuf], user_home: Option<&Path>) -> Vec<PathBuf> {
    let sandboxes =
        records.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    let read = |sandbox: fs::DirEntry| {
        let text = fs::read(sandbox.path().join("sandbox.json")).ok()?;
        serde_json::from_slice(&text).ok()
    };
    sandboxes.filter_map(read).flat_map(|record| of_record(&record, user_home)).collect()
}

fn of_record(record: &serde_json::Value, user_home: Option<&Path>) -> Vec<PathBuf> {
    use vestal_config::AnyKey as _;
    let spec = &record["instance"]["spec"];
    let list = |value: &serde_json::Value| -> Vec<String> {
        value.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    };
    let volumes = list(&spec[keys::DOCKER_VOLUMES.name()]);
    let volumes = volumes.iter().filter_map(|spec| Volume::parse(spec).ok());
    let volumes =
        volumes.filter(|volume| !volume.read_only).filter_map(|volume| match volume.source {
            VolumeSource::Host(path) => path.resolve(user_home).map(PathBuf::from),
            VolumeSource::Named(_) => None,
        });
    let asked = &record["overrides"];
    let whole = [&asked["mount"], &spec[keys::DOCKER_MOUNT_CWD_TO_WORKSPACE.name()]];
    let whole = whole.into_iter().filter_map(|path| path.as_str().map(PathBuf::from));
    let binds = asked["binds"].as_array().into_iter().flatten();
    let binds = binds.filter_map(|path| path.as_str().map(PathBuf::from));
    let made_with = list(&spec[BINDS]).into_iter().map(PathBuf::from);
    volumes.chain(whole).chain(binds).chain(made_with).collect()
}

fn note_name(dir: &Path) -> String {
    format!("{PREFIX}{}", hex(&Sha256::digest(dir.as_os_str().as_bytes())[..8]))
}
