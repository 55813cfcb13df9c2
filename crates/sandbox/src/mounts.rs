//! What of the host is mounted in sandboxes.
//!
//! A sandbox that can write to a directory can replace what is in it by links,
//! and another sandbox whose mount is below would be given what the link names.
//! So no link is followed below any directory that sandboxes can write to; what
//! a sandbox could have replaced is mounted only if it is what the instance was
//! made with; and the Vestal home is covered wherever it would be seen. What only
//! the host's users can replace is theirs to replace.

mod exposed;
mod own_dirs;
mod pins;
mod walk;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use vestal_config::{ConfigError, Settings};

use self::exposed::Exposed;
pub(crate) use self::own_dirs::{MACHINE_DIR, OwnDirs, admit_store};
pub(crate) use self::pins::{MountCover, covers, is_replaced};
use self::pins::{Pin, Pins};
use self::walk::{PathProblem, Reached, walk};
use crate::TaskName;
use crate::backend::{BackendError, InstanceRequest};
use crate::key::quoted;

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
pub(crate) struct AdmittedMount {
    /// Its path without any link in it.
    pub(crate) path: PathBuf,
    /// Number of its device.
    pub(crate) device: u64,
    /// Its number there.
    pub(crate) inode: u64,
}

/// What may be mounted, by the path it was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mounts(BTreeMap<PathBuf, AdmittedMount>);

impl Mounts {
    /// Returns what may be mounted for a path.
    pub(crate) fn get(&self, asked: &Path) -> Result<&AdmittedMount, BackendError> {
        self.0.get(asked).ok_or_else(|| BackendError::GuestFailed {
            reason: format!("{} was not looked at before it is mounted", asked.display()),
        })
    }

    /// Returns all of them, by the path that was asked for.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &AdmittedMount)> {
        self.0.iter().map(|(asked, admitted)| (asked.as_path(), admitted))
    }

    /// Returns one directory as it was found.
    #[cfg(test)]
    fn found(asked: &Path, reached: &Reached) -> Self {
        let Reached { path, identity, .. } = reached;
        let (device, inode) = (identity.device, identity.inode);
        let admitted = AdmittedMount { path: path.clone(), device, inode };
        Self(BTreeMap::from([(asked.to_owned(), admitted)]))
    }

    /// Returns what may be mounted as if it were what it is called.
    #[cfg(test)]
    pub(crate) fn untried(wanted: &[MountRequest]) -> Self {
        let admitted = |wanted: &MountRequest| {
            let path = wanted.path.clone();
            (path.clone(), AdmittedMount { path, device: 0, inode: 0 })
        };
        Self(wanted.iter().map(admitted).collect())
    }
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
    own_dirs: &OwnDirs,
    wanted: &[MountRequest],
    request: &InstanceRequest,
    before: KnownMounts,
) -> Result<Mounts, BackendError> {
    let failed = |error: std::io::Error| BackendError::Io {
        action: "look at what is mounted in sandboxes".to_owned(),
        source: error,
    };
    let kept = |error: crate::store::StoreError| failed(std::io::Error::other(error));
    let mut exposed = own_dirs.exposed().map_err(failed)?;
    let pins = match before {
        KnownMounts::Nothing => Pins::default(),
        KnownMounts::Recorded => Pins::read(&request.instance.dir).map_err(kept)?,
    };
    let (mut mounts, mut noted) = (Mounts::default(), Pins::default());
    let mut given = Vec::new();
    for wanted @ MountRequest { path, writable } in wanted {
        let (reached, pin) = look_at(own_dirs, &exposed, wanted, &pins, request.key.task())?;
        if *writable {
            given.push((reached.path.clone(), reached.identity));
        }
        noted.mounts.insert(path.clone(), pin);
        let Reached { path: real, identity, .. } = reached;
        let admitted = AdmittedMount { path: real, device: identity.device, inode: identity.inode };
        mounts.0.insert(path.clone(), admitted);
    }
    // Noted before anything can use it.
    for (path, identity) in given {
        own_dirs.make_missing(&path);
        exposed.add(&path, identity).map_err(failed)?;
    }
    if noted != pins {
        noted.write(&request.instance.dir).map_err(kept)?;
    }
    Ok(mounts)
}

/// Opens a directory that is copied to a sandbox and back, and notes that the sandbox can
/// change what is in it.
pub(crate) fn open_synced(
    settings: &Settings,
    path: &Path,
    task: &TaskName,
) -> Result<OwnedFd, BackendError> {
    let failed = |error: std::io::Error| BackendError::Io {
        action: format!("look at {}, which is copied to the sandbox", path.display()),
        source: error,
    };
    let own_dirs = OwnDirs::of(settings)?;
    let mut exposed = own_dirs.exposed().map_err(failed)?;
    let wanted = MountRequest { path: path.to_owned(), writable: true };
    let (reached, _) = look_at(&own_dirs, &exposed, &wanted, &Pins::default(), task)?;
    let covered = covers(&own_dirs.hidden, &reached.path, Path::new("/"));
    if let Some(cover) = covered.first() {
        return Err(BackendError::Advised {
            problem: format!(
                "{} cannot be copied to the sandbox: the Vestal home is in it, at .{}",
                path.display(),
                cover.target.display()
            ),
            advice: "mount a directory that does not hold it".to_owned(),
        });
    }
    exposed.add(&reached.path, reached.identity).map_err(failed)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(&reached.file, c".", flags, Mode::empty()).map_err(|errno| failed(errno.into()))
}

/// Checks that what has the names of these directories now may be mounted in an
/// instance that was made with other ones. Nothing is noted.
pub(crate) fn check_again(
    own_dirs: &OwnDirs,
    wanted: &[MountRequest],
    instance_dir: &Path,
    task: &TaskName,
) -> Result<(), BackendError> {
    let failed = |error: std::io::Error| BackendError::Io {
        action: "look at what is mounted in the sandbox".to_owned(),
        source: error,
    };
    let kept = |error: crate::store::StoreError| failed(std::io::Error::other(error));
    let exposed = own_dirs.exposed().map_err(failed)?;
    let pins = Pins::read(instance_dir).map_err(kept)?;
    wanted.iter().try_for_each(|wanted| look_at(own_dirs, &exposed, wanted, &pins, task).map(drop))
}

/// Returns what is to be mounted, if it may be.
fn look_at(
    own_dirs: &OwnDirs,
    exposed: &Exposed,
    wanted: &MountRequest,
    pins: &Pins,
    task: &TaskName,
) -> Result<(Reached, Pin), BackendError> {
    let path = &wanted.path;
    let reached =
        walk(path, |at, found| exposed.holds(at, found)).map_err(|astray| lost(path, astray))?;
    own_dirs.refuse_ours(path, &reached)?;
    let pin = Pin { path: reached.path.clone(), identity: lasting(&reached) };
    if wanted.writable {
        own_dirs.refuse_links(path, &reached)?;
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
pub(crate) fn accept(
    own_dirs: &OwnDirs,
    instance_dir: &Path,
) -> Result<Vec<BackendError>, BackendError> {
    let failed = |error: std::io::Error| BackendError::Io {
        action: "look at what is mounted in the sandbox".to_owned(),
        source: error,
    };
    let kept = |error: crate::store::StoreError| failed(std::io::Error::other(error));
    let exposed = own_dirs.exposed().map_err(failed)?;
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

/// Returns whether all of them still are where they were found.
pub(crate) fn are_unmoved(own_dirs: &OwnDirs, mounts: &Mounts) -> bool {
    let Ok(exposed) = own_dirs.exposed() else {
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
fn lasting(reached: &Reached) -> Option<walk::InodeIdentity> {
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

fn compare(asked: &Path, was: &Pin, now: &Pin, task: &TaskName) -> Result<(), BackendError> {
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

/// Says why the way to a directory cannot be trusted: a sandbox may have planted a
/// link on it. Nothing: there is none.
pub(crate) fn planted_link(settings: &Settings, way: &Path) -> Result<Option<String>, ConfigError> {
    let own_dirs = OwnDirs::of(settings)?;
    let exposed = match own_dirs.exposed() {
        Ok(exposed) => exposed,
        Err(error) => {
            let notes = own_dirs.root_home.join(exposed::NAME);
            return Ok(Some(format!("{} cannot be used: {error}", notes.display())));
        }
    };
    let Err(PathProblem::Link { at, to }) = walk(way, |at, found| exposed.holds(at, found)) else {
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

fn lost(asked: &Path, astray: PathProblem) -> BackendError {
    match astray {
        PathProblem::Link { at, to } => BackendError::Advised {
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
        PathProblem::Io(source) => BackendError::Advised {
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
    fn what_is_accepted_is_what_is_there_at_that_moment_and_nothing_that_comes_later() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let own_dirs = OwnDirs::bare(root.join("vestal"));
        let (instance, source) = (root.join("instance"), root.join("source"));
        std::fs::create_dir(&instance).unwrap();
        std::fs::create_dir(&own_dirs.root_home).unwrap();
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
        assert!(accept(&own_dirs, &instance).unwrap().is_empty());
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
        let refusal = accept(&own_dirs, &instance).unwrap();
        let refusal: Vec<String> = refusal.iter().map(ToString::to_string).collect();
        assert_eq!(refusal.len(), 1, "{refusal:?}");
        assert!(refusal[0].contains("source cannot be mounted"), "{refusal:?}");
        assert_eq!(pinned(), accepted);
        assert_eq!(Pins::read(&instance).unwrap().mounts[&other].path, other);
    }
}
