//! What is where in a sandbox, as it is being laid out.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use minicbor::bytes::ByteVec;
use vestal_wire::{Bind, FileIdentity, Mapping, OverlayDirs, SandboxMount};

use super::users::SHIFT;
use super::{DirToMake, PlanInput};
use crate::backend::BackendError;
use crate::mounts::{Cover, covers};

/// Bytes of what covers a directory; it stays empty.
const COVER: u64 = 64 << 10;

/// The places of a sandbox.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    pub(super) input: &'a PlanInput<'a>,
    places: Vec<(PathBuf, SandboxMount)>,
    taken: BTreeSet<PathBuf>,
    /// What the user has put somewhere.
    of_user: BTreeSet<PathBuf>,
    /// Directories of ours that are below those, and how they would be seen.
    hidden: Vec<(Cover, Access)>,
    pub(super) make: Vec<DirToMake>,
    pub(super) remarks: Vec<String>,
}

/// How a directory of the host is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It can only be read.
    Read,
    /// It can be changed.
    Write,
}

impl<'a> Layout<'a> {
    pub(super) fn new(input: &'a PlanInput<'a>) -> Self {
        Self {
            input,
            places: Vec::new(),
            taken: BTreeSet::new(),
            of_user: BTreeSet::new(),
            hidden: Vec::new(),
            make: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Returns whether owners on the host are shown as the sandbox's users of
    /// the same number.
    pub(super) fn is_shifted(&self) -> bool {
        self.input.users.mapping == Mapping::Privileged
    }

    /// Returns whether something is at a place already.
    pub(super) fn is_taken(&self, target: &Path) -> bool {
        self.taken.contains(target)
    }

    /// Returns whether a place is within what the user has put there.
    pub(super) fn is_of_user(&self, target: &Path) -> bool {
        self.of_user.iter().any(|place| target.starts_with(place))
    }

    /// Puts something somewhere, unless something is there.
    pub(super) fn put(&mut self, target: &Path, place: impl FnOnce(ByteVec) -> SandboxMount) {
        if self.taken.insert(target.to_owned()) {
            self.places.push((target.to_owned(), place(bytes(target))));
        }
    }

    /// Puts a directory or file of ours somewhere, unless something is there.
    pub(super) fn put_own(&mut self, target: &Path, source: &Path, access: Access) {
        // Whoever is not root cannot show a directory without what is mounted
        // below it: that could uncover what the mount was to hide.
        let bind = self.bind(target, source, access, !self.is_shifted());
        self.put(target, |_| SandboxMount::Bind(bind));
    }

    /// Puts a directory of the host's system somewhere, to be read only, unless
    /// something is there.
    pub(super) fn put_system(&mut self, target: &Path, source: &Path) {
        let bind = self.bind(target, source, Access::Read, !self.is_shifted());
        let hidden = self.private(source);
        self.put(target, |_| SandboxMount::Bind(Bind { hidden, ..bind }));
    }

    /// Returns what of a directory of the host's system is not shown.
    pub(super) fn private(&self, source: &Path) -> Vec<ByteVec> {
        self.input.private.of(source).iter().map(|path| bytes(path)).collect()
    }

    /// Puts a directory or file of the user's somewhere, with what is mounted
    /// below it.
    pub(super) fn put_for_user(
        &mut self,
        target: &Path,
        source: &Path,
        access: Access,
    ) -> Result<(), BackendError> {
        if self.is_taken(target) {
            return Err(BackendError::Advised {
                problem: format!("two things are to be mounted at {}", target.display()),
                advice: "remove one of them from terminal.docker_volumes".to_owned(),
            });
        }
        let input = self.input;
        let admitted = input.mounts.get(source)?;
        let identity = FileIdentity { device: admitted.device, inode: admitted.inode };
        let bind = self.bind(target, &admitted.path, access, true);
        self.put(target, |_| SandboxMount::Bind(Bind { identity: Some(identity), ..bind }));
        self.of_user.insert(target.to_owned());
        self.hidden.extend(
            covers(&input.settings.ours.hidden, &admitted.path, target)
                .into_iter()
                .map(|cover| (cover, access)),
        );
        Ok(())
    }

    /// Covers our own directories wherever what the user mounts shows them,
    /// once all that the user mounts has its place.
    pub(super) fn cover_ours(&mut self) {
        for (cover, access) in std::mem::take(&mut self.hidden) {
            for (source, target) in &cover.fixed {
                let bind =
                    Bind { identity: identity(source), ..self.bind(target, source, access, true) };
                self.put(target, |_| SandboxMount::Bind(bind));
            }
            self.cover(&cover.target);
        }
    }

    /// Puts nothing somewhere, so that what is there is not seen.
    pub(super) fn cover(&mut self, target: &Path) {
        self.put(target, |target| SandboxMount::Tmpfs {
            target,
            size: COVER,
            mode: 0o555,
            exec: false,
        });
    }

    fn bind(&self, target: &Path, source: &Path, access: Access, recursive: bool) -> Bind {
        Bind {
            source: bytes(source),
            target: bytes(target),
            read_only: access == Access::Read,
            recursive,
            shifted: self.is_shifted(),
            identity: None,
            hidden: Vec::new(),
        }
    }

    /// Makes the layers over a directory of the host and returns them.
    pub(super) fn layers(&mut self, name: &str, lower: &Path, mode: u32) -> OverlayDirs {
        let dir = self.input.dirs.layers.join(name);
        let (upper, work) = (dir.join("upper"), dir.join("work"));
        self.make(&dir, 0o700);
        // The top of what is seen is the upper one's.
        self.make_for_sandbox(&upper, mode);
        self.make_for_sandbox(&work, 0o700);
        OverlayDirs {
            lower: bytes(lower),
            shifted: self.is_shifted(),
            upper: bytes(&upper),
            work: bytes(&work),
            hidden: Vec::new(),
        }
    }

    /// Has a directory made on the host.
    pub(super) fn make(&mut self, path: &Path, mode: u32) {
        self.make.push(DirToMake { path: path.to_owned(), mode, owner: None });
    }

    /// Has a directory made on the host that is the sandbox's root's.
    pub(super) fn make_for_sandbox(&mut self, path: &Path, mode: u32) {
        let owner = self.is_shifted().then_some((SHIFT, SHIFT));
        self.make.push(DirToMake { path: path.to_owned(), mode, owner });
    }

    /// Returns the places in an order in which each has what it is below
    /// before it.
    pub(super) fn into_places(mut self) -> (Vec<SandboxMount>, Vec<DirToMake>, Vec<String>) {
        self.places.sort_by_key(|(target, _)| depth(target));
        let places = self.places.into_iter().map(|(_, place)| place).collect();
        (places, self.make, self.remarks)
    }
}

/// Returns which file a path without links names.
fn identity(path: &Path) -> Option<FileIdentity> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::symlink_metadata(path).ok()?;
    Some(FileIdentity { device: found.dev(), inode: found.ino() })
}

fn depth(target: &Path) -> usize {
    target.components().filter(|part| matches!(part, Component::Normal(_))).count()
}

/// Returns a path as the stage takes it.
pub(super) fn bytes(path: &Path) -> ByteVec {
    path.as_os_str().as_bytes().to_vec().into()
}
