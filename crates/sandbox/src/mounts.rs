//! What of the host is mounted in sandboxes.
//!
//! A sandbox that can write to a directory can replace what is in it by links,
//! and another sandbox whose mount is below would be given what the link names.
//! So no link is followed below any directory that sandboxes can write to; what
//! a sandbox could have replaced is mounted only if it is what the instance was
//! made with; and the Vestal home is covered wherever it would be seen. What only
//! the host's users can replace is theirs to replace.

mod exposed;
mod stores;
mod walk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use vestal_config::{ConfigError, Settings};

use self::exposed::Exposed;
pub(crate) use self::stores::{Cover, admit_store, covers, is_replaced};
use self::stores::{Pin, Pins};
use self::walk::{Astray, Reached, links_on_the_way, walk};
use crate::Task;
use crate::backend::{BackendError, InstanceRequest};
use crate::settings::SandboxSettings as _;
use crate::store::{HomeNotes, make_private_dir};

/// Where root keeps what all homes of this machine share. No sandbox sees it:
/// what is in it says what sandboxes are shown.
pub(crate) const MACHINE_DIR: &str = "/var/cache/vestal";

/// A directory or file of the host that is to be mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountRequest {
    /// Its path, as it was asked for.
    pub(crate) path: PathBuf,
    /// Whether the sandbox can change it.
    pub(crate) writable: bool,
}

/// A directory or file of the host that may be mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// Its path without any link in it.
    pub(crate) path: PathBuf,
    /// Number of its device.
    pub(crate) device: u64,
    /// Its number there.
    pub(crate) inode: u64,
}

/// What may be mounted, by the path it was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mounts(BTreeMap<PathBuf, Admitted>);

impl Mounts {
    /// Returns what may be mounted for a path.
    pub(crate) fn get(&self, asked: &Path) -> Result<&Admitted, BackendError> {
        self.0.get(asked).ok_or_else(|| BackendError::GuestFailed {
            reason: format!("{} was not looked at before it is mounted", asked.display()),
        })
    }

    /// Returns all of them, by the path that was asked for.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &Admitted)> {
        self.0.iter().map(|(asked, admitted)| (asked.as_path(), admitted))
    }

    /// Returns one directory as it was found.
    #[cfg(test)]
    fn found(asked: &Path, reached: &Reached) -> Self {
        let Reached { path, identity, .. } = reached;
        let (device, inode) = (identity.device, identity.inode);
        let admitted = Admitted { path: path.clone(), device, inode };
        Self(BTreeMap::from([(asked.to_owned(), admitted)]))
    }

    /// Returns what may be mounted as if it were what it is called.
    #[cfg(test)]
    pub(crate) fn untried(wanted: &[MountRequest]) -> Self {
        let admitted = |wanted: &MountRequest| {
            let path = wanted.path.clone();
            (path.clone(), Admitted { path, device: 0, inode: 0 })
        };
        Self(wanted.iter().map(admitted).collect())
    }
}

/// Whose mounts they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ours {
    /// The home that all profiles share.
    root_home: PathBuf,
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
    /// Links that lead to them. Who can replace one can make a home of his own
    /// in the place of ours.
    links: Vec<PathBuf>,
}

impl Ours {
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

    /// Returns what sandboxes can or could write to.
    fn exposed(&self) -> std::io::Result<Exposed> {
        let before = || stores::given(&self.records, self.user_home.as_deref());
        Exposed::read(&self.root_home, &self.written, before)
    }
}

/// Returns a directory by its real name; it need not be there.
fn real(dir: PathBuf) -> PathBuf {
    let known = dir.canonicalize().ok();
    let by_parent = || Some(dir.parent()?.canonicalize().ok()?.join(dir.file_name()?));
    known.or_else(by_parent).unwrap_or(dir)
}

/// What is known of an instance's mounts from before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KnownMounts {
    /// Nothing: it is made.
    Nothing,
    /// What it was made with: it is started again.
    Recorded,
}

/// Looks at what is to be mounted in an instance, and notes it. What is not what
/// it was when the instance was made is refused.
pub(crate) fn admit(
    ours: &Ours,
    wanted: &[MountRequest],
    request: &InstanceRequest,
    before: KnownMounts,
) -> Result<Mounts, BackendError> {
    let failed = |error: std::io::Error| BackendError::Io {
        action: "look at what is mounted in sandboxes".to_owned(),
        source: error,
    };
    let kept = |error: crate::store::StoreError| failed(std::io::Error::other(error));
    let mut exposed = ours.exposed().map_err(failed)?;
    let pins = match before {
        KnownMounts::Nothing => Pins::default(),
        KnownMounts::Recorded => Pins::read(&request.instance.dir).map_err(kept)?,
    };
    let (mut mounts, mut noted) = (Mounts::default(), Pins::default());
    let mut given = Vec::new();
    for wanted @ MountRequest { path, writable } in wanted {
        let (reached, pin) = look_at(ours, &exposed, wanted, &pins, request.key.task())?;
        if *writable {
            given.push((reached.path.clone(), reached.identity));
        }
        noted.mounts.insert(path.clone(), pin);
        let Reached { path: real, identity, .. } = reached;
        let admitted = Admitted { path: real, device: identity.device, inode: identity.inode };
        mounts.0.insert(path.clone(), admitted);
    }
    // Noted before anything can use it.
    for (path, identity) in given {
        make_ours(ours, &path);
        exposed.add(&path, identity).map_err(failed)?;
    }
    if noted != pins {
        noted.write(&request.instance.dir).map_err(kept)?;
    }
    Ok(mounts)
}

/// Checks that what has the names of these directories now may be mounted in an
/// instance that was made with other ones. Nothing is noted.
pub(crate) fn check_again(
    ours: &Ours,
    wanted: &[MountRequest],
    instance_dir: &Path,
    task: &Task,
) -> Result<(), BackendError> {
    let failed = |error: std::io::Error| BackendError::Io {
        action: "look at what is mounted in the sandbox".to_owned(),
        source: error,
    };
    let kept = |error: crate::store::StoreError| failed(std::io::Error::other(error));
    let exposed = ours.exposed().map_err(failed)?;
    let pins = Pins::read(instance_dir).map_err(kept)?;
    wanted.iter().try_for_each(|wanted| look_at(ours, &exposed, wanted, &pins, task).map(drop))
}

/// Returns what is to be mounted, if it may be.
fn look_at(
    ours: &Ours,
    exposed: &Exposed,
    wanted: &MountRequest,
    pins: &Pins,
    task: &Task,
) -> Result<(Reached, Pin), BackendError> {
    let path = &wanted.path;
    let reached =
        walk(path, |at, found| exposed.holds(at, found)).map_err(|astray| lost(path, astray))?;
    refuse_ours(ours, path, &reached)?;
    let pin = Pin { path: reached.path.clone(), identity: lasting(&reached) };
    if wanted.writable {
        refuse_links(ours, path, &reached)?;
    }
    if let Some(was) = pins.mounts.get(path)
        && reached.replaceable
    {
        compare(path, was, &pin, task)?;
    }
    Ok((reached, pin))
}

/// Notes what an instance mounts as it is at this moment, in place of what it was
/// made with: the next start takes that, and nothing that comes in its place later.
///
/// Returns why some of it is not accepted. It may be what the settings no longer
/// name, which the next start drops; if they do name it, the next start says so
/// again, and what comes in its place is still compared with what it was.
pub(crate) fn accept(ours: &Ours, instance_dir: &Path) -> Result<Vec<BackendError>, BackendError> {
    let failed = |error: std::io::Error| BackendError::Io {
        action: "look at what is mounted in the sandbox".to_owned(),
        source: error,
    };
    let kept = |error: crate::store::StoreError| failed(std::io::Error::other(error));
    let exposed = ours.exposed().map_err(failed)?;
    let mut pins = Pins::read(instance_dir).map_err(kept)?;
    let mut not_accepted = Vec::new();
    for (asked, pin) in &mut pins.mounts {
        match walk(asked, |at, found| exposed.holds(at, found)) {
            Ok(reached) => *pin = Pin { identity: lasting(&reached), path: reached.path },
            Err(astray) => not_accepted.push(lost(asked, astray)),
        }
    }
    pins.write(instance_dir).map_err(kept)?;
    Ok(not_accepted)
}

/// Makes those of our directories that are missing below one that a sandbox is
/// to write to: there has to be something to cover, or it would be the sandbox
/// that makes a home for us. Where that fails nobody else can make it either.
fn make_ours(ours: &Ours, given: &Path) {
    for dir in ours.hidden.iter().filter(|dir| dir.starts_with(given) && !dir.exists()) {
        make_private_dir(dir).ok();
    }
}

/// Returns whether all of them still are where they were found.
pub(crate) fn are_unmoved(ours: &Ours, mounts: &Mounts) -> bool {
    let Ok(exposed) = ours.exposed() else {
        return false;
    };
    mounts.iter().all(|(asked, admitted)| {
        walk(asked, |at, found| exposed.holds(at, found)).is_ok_and(|reached| {
            (reached.identity.device, reached.identity.inode) == (admitted.device, admitted.inode)
        })
    })
}

/// Returns which file it is, where that will still be so when its filesystem is
/// mounted the next time.
fn lasting(reached: &Reached) -> Option<walk::Identity> {
    let kind = rustix::fs::fstatfs(&reached.file).ok()?.f_type;
    (!numbers_change(kind)).then_some(reached.identity)
}

/// Returns whether files of a filesystem, by the magic number of `statfs`, have
/// other numbers each time it is mounted.
fn numbers_change(magic: impl TryInto<i64>) -> bool {
    const FUSE: i64 = 0x6573_5546;
    const PLAN9: i64 = 0x0102_1997;
    matches!(magic.try_into(), Ok(FUSE | PLAN9))
}

fn compare(asked: &Path, was: &Pin, now: &Pin, task: &Task) -> Result<(), BackendError> {
    let same = match (&was.identity, &now.identity) {
        (Some(was), Some(now)) => was.is(now),
        _ => was.path == now.path,
    };
    if same {
        return Ok(());
    }
    let asked = asked.display();
    let problem = if was.path == now.path {
        format!(
            "{asked} was replaced since this sandbox was made: another directory or file has its \
             name now"
        )
    } else {
        format!(
            "{asked} leads to {} now, and led to {} when this sandbox was made",
            now.path.display(),
            was.path.display()
        )
    };
    Err(BackendError::Advised {
        problem,
        advice: format!(
            "if that is your own doing: vestal stop --accept-mounts {}; then it is mounted as it \
             is at that moment",
            quoted(task.as_str())
        ),
    })
}

/// Returns a task's name as a shell takes it.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./@:".contains(letter);
    if name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

/// Says why the way to a directory cannot be trusted: a sandbox may have planted a
/// link on it. Nothing: there is none.
pub(crate) fn planted_link(settings: &Settings, way: &Path) -> Result<Option<String>, ConfigError> {
    let ours = Ours::of(settings)?;
    let exposed = match ours.exposed() {
        Ok(exposed) => exposed,
        Err(error) => {
            let notes = ours.root_home.join(exposed::NAME);
            return Ok(Some(format!("{} cannot be used: {error}", notes.display())));
        }
    };
    let Err(Astray::Link { at, to }) = walk(way, |at, found| exposed.holds(at, found)) else {
        return Ok(None);
    };
    Ok(Some(format!(
        "{} is a link to {}, in a directory that a sandbox can write to, and may be its doing. If \
         the link is yours, go to what it names by its own path; else look at who made it, and \
         remove it",
        at.display(),
        to.display()
    )))
}

/// Refuses what is in the Vestal home, but for what is there to be mounted.
fn refuse_ours(ours: &Ours, asked: &Path, reached: &Reached) -> Result<(), BackendError> {
    let within = |dirs: &[PathBuf]| dirs.iter().any(|dir| reached.path.starts_with(dir));
    let lent = ours.lent.iter().any(|dir| reached.path.starts_with(dir) && reached.path != *dir);
    if !within(&ours.hidden) || lent {
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
fn refuse_links(ours: &Ours, asked: &Path, reached: &Reached) -> Result<(), BackendError> {
    let Some(link) = ours.links.iter().find(|link| link.starts_with(&reached.path)) else {
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

fn lost(asked: &Path, astray: Astray) -> BackendError {
    match astray {
        Astray::Link { at, to } => BackendError::Advised {
            problem: format!(
                "{} cannot be mounted: {} is a link to {}, in a directory that a sandbox can \
                 write to, and may be its doing",
                asked.display(),
                at.display(),
                to.display()
            ),
            advice: "if the link is yours, mount what it names by its own path; else look at who \
                     made it, and remove it"
                .to_owned(),
        },
        Astray::Io(source) => BackendError::Advised {
            problem: format!("{} cannot be mounted: {source}", asked.display()),
            advice: "make it, or mend the setting that names it".to_owned(),
        },
    }
}

/// Notes that a sandbox can write to a directory.
#[cfg(test)]
pub(crate) fn expose(root_home: &Path, dir: &Path) {
    let reached = walk(dir, |_, _| false).unwrap();
    let mut exposed = Exposed::read(root_home, &[], Vec::new).unwrap();
    exposed.add(&reached.path, reached.identity).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_whose_link_leads_to_the_home_is_not_given_away() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("user/project")).unwrap();
        std::fs::create_dir_all(root.join("disk/vestal")).unwrap();
        let link = root.join("user/.vestal");
        std::os::unix::fs::symlink(root.join("disk/vestal"), &link).unwrap();
        let ours = Ours {
            root_home: link.clone(),
            hidden: vec![root.join("disk/vestal")],
            written: Vec::new(),
            records: Vec::new(),
            user_home: None,
            lent: Vec::new(),
            links: links_on_the_way(&link),
        };
        let refused = |path: &str| {
            let path = root.join(path);
            let reached = walk(&path, |_, _| false).unwrap();
            refuse_links(&ours, &path, &reached).map_err(|error| error.to_string())
        };
        let said = refused("user").unwrap_err();
        assert!(said.contains(&format!("{} is in it", link.display())), "{said}");
        assert_eq!(refused("user/project"), Ok(()));
        assert_eq!(refused("disk"), Ok(()), "what is covered there is the home itself");
    }

    #[test]
    fn what_is_accepted_is_what_is_there_at_that_moment_and_nothing_that_comes_later() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let ours = Ours {
            root_home: root.join("vestal"),
            hidden: Vec::new(),
            written: Vec::new(),
            records: Vec::new(),
            user_home: None,
            lent: Vec::new(),
            links: Vec::new(),
        };
        let (instance, source) = (root.join("instance"), root.join("source"));
        std::fs::create_dir(&instance).unwrap();
        std::fs::create_dir(&ours.root_home).unwrap();
        let pinned = || Pins::read(&instance).unwrap().mounts[&source].clone();
        let there = |kept: &str| {
            // The one before keeps its number as long as it is there.
            std::fs::rename(&source, root.join(kept)).ok();
            std::fs::create_dir(&source).unwrap();
            let reached = walk(&source, |_, _| false).unwrap();
            Pin { identity: lasting(&reached), path: reached.path }
        };
        let made_with = there("none");
        let mut pins = Pins::default();
        pins.mounts.insert(source.clone(), made_with.clone());
        pins.write(&instance).unwrap();
        let accepted = there("first");
        assert!(accept(&ours, &instance).unwrap().is_empty());
        assert_eq!(pinned(), accepted);
        let later = there("second");
        assert!(later != accepted && pinned() == accepted, "{later:?}");
        // What is not there cannot be accepted, and keeps nothing else from it.
        std::fs::remove_dir(&source).unwrap();
        let other = root.join("other");
        let mut pins = Pins::read(&instance).unwrap();
        pins.mounts.insert(other.clone(), made_with);
        pins.write(&instance).unwrap();
        std::fs::create_dir(&other).unwrap();
        let said = accept(&ours, &instance).unwrap();
        let said: Vec<String> = said.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("source cannot be mounted"), "{said:?}");
        assert_eq!(pinned(), accepted);
        assert_eq!(Pins::read(&instance).unwrap().mounts[&other].path, other);
    }
}
