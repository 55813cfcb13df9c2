//! What of the host no sandbox may see or change: directories of sandboxes, covered
//! places, and what was mounted before.

#[cfg(test)]
#[path = "stores_tests.rs"]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use vestal_config::Settings;

use super::exposed::{Exposed, NAME};
use super::lasting;
use super::own_dirs::real;
use super::walk::{Astray, Identity, walk};
use crate::Error;
use crate::key::hex;
use crate::overrides::BINDS;
use crate::settings::{SandboxSettings as _, Volume, VolumeSource, keys};
use crate::store::{
    HomeError, StoreError, make_private_dir, read_regular, read_versioned, replace, write_versioned,
};

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
        Err(Astray::Link { .. }) => true,
        Err(Astray::Io(error)) => return Err(unreadable(error).into()),
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
pub(super) fn known(root_home: &Path) -> Vec<PathBuf> {
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
pub(super) fn records(root_home: &Path, current: &Path) -> Vec<PathBuf> {
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
/// A record that cannot be read says nothing here, and is reported by whoever
/// uses it.
pub(super) fn given(records: &[PathBuf], user_home: Option<&Path>) -> Vec<PathBuf> {
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

/// What has to be done about a directory of ours below one that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cover {
    /// Directories between the mounted one and ours, outermost first: where they
    /// are on the host and in the sandbox. Mounted over themselves they cannot be
    /// renamed: whoever could, could put another home in the place of ours.
    pub(crate) fixed: Vec<(PathBuf, PathBuf)>,
    /// Where ours would be seen.
    pub(crate) target: PathBuf,
}

/// Returns what has to be covered when a directory is mounted, by its real name,
/// at a place.
pub(crate) fn covers(hidden: &[PathBuf], source: &Path, target: &Path) -> Vec<Cover> {
    let mut found: Vec<&Path> = hidden
        .iter()
        .filter(|dir| dir.starts_with(source) && *dir != source && dir.is_dir())
        .map(PathBuf::as_path)
        .collect();
    found.sort_unstable();
    // What is below another one is covered with it.
    found.dedup_by(|later, earlier| later.starts_with(*earlier));
    let cover = |dir: &Path| {
        let rest = dir.strip_prefix(source).unwrap_or(dir);
        let mut between: Vec<&Path> =
            rest.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty()).collect();
        between.reverse();
        let fixed =
            between.into_iter().map(|part| (source.join(part), target.join(part))).collect();
        Cover { fixed, target: target.join(rest) }
    };
    found.into_iter().map(cover).collect()
}

const VERSION: u64 = 1;
const PINS_FILE: &str = "mounts.json";

/// What an instance was given, by the path it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pins {
    version: u64,
    pub(super) mounts: BTreeMap<PathBuf, Pin>,
}

/// A directory or file of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pin {
    /// Its path without any link in it.
    pub(super) path: PathBuf,
    /// Which it is; absent where the filesystem gives it another number each
    /// time it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<Identity>,
}

/// Returns whether the name of a directory that an instance mounts has passed to
/// another directory since it was mounted. The instance still has the first one.
/// A directory that is gone has not been replaced, and what is not known of an
/// instance, or has no lasting identity, cannot be compared.
pub(crate) fn is_replaced(instance_dir: &Path, asked: &Path) -> bool {
    let pins = Pins::read(instance_dir).unwrap_or_default();
    let mounted = pins.mounts.get(asked).and_then(|pin| pin.identity);
    let now = walk(asked, |_, _| false).ok().and_then(|reached| lasting(&reached));
    matches!((mounted, now), (Some(mounted), Some(now)) if !mounted.is(&now))
}

impl Default for Pins {
    fn default() -> Self {
        Self { version: VERSION, mounts: BTreeMap::new() }
    }
}

impl Pins {
    /// Reads what is known of an instance; nothing is known of one that was made
    /// by an older program.
    pub(super) fn read(instance_dir: &Path) -> Result<Self, StoreError> {
        Ok(read_versioned(&instance_dir.join(PINS_FILE), VERSION)?.unwrap_or_default())
    }

    pub(super) fn write(&self, instance_dir: &Path) -> Result<(), StoreError> {
        write_versioned(&instance_dir.join(PINS_FILE), self)
    }
}
