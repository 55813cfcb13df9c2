//! The mounts of a sandbox while they are being planned.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use minicbor::bytes::ByteVec;
use vestal_wire::{Bind, FileIdentity, Mapping, OverlayDirs, SandboxMount};

use super::users::ROOT_ID_SHIFT;
use super::{DirToMake, PlanInput};
use crate::backend::BackendError;
use crate::backends::native::tier::Tier;
use crate::mounts::{MountCover, covers};

/// Size of the empty tmpfs that hides a directory.
const HIDING_TMPFS_SIZE: u64 = 64 << 10;

/// The mounts that are planned so far. The first mount at a target wins.
#[derive(Debug)]
pub(super) struct MountLayout<'a> {
    pub(super) input: &'a PlanInput<'a>,
    mounts: Vec<(PathBuf, SandboxMount)>,
    taken: BTreeSet<PathBuf>,
    /// Targets of the user's mounts.
    user_targets: BTreeSet<PathBuf>,
    /// Own directories that those mounts would show.
    to_hide: Vec<(MountCover, Access)>,
    pub(super) dirs_to_make: Vec<DirToMake>,
    pub(super) remarks: Vec<String>,
}

/// Access to a directory of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl<'a> MountLayout<'a> {
    pub(super) fn new(input: &'a PlanInput<'a>) -> Self {
        Self {
            input,
            mounts: Vec::new(),
            taken: BTreeSet::new(),
            user_targets: BTreeSet::new(),
            to_hide: Vec::new(),
            dirs_to_make: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Returns whether ids on the host are shown as the same ids in the sandbox
    /// (idmapped mounts).
    pub(super) fn is_shifted(&self) -> bool {
        self.input.users.mapping == Mapping::Privileged
    }

    /// Returns whether something is mounted at a target.
    pub(super) fn is_taken(&self, target: &Path) -> bool {
        self.taken.contains(target)
    }

    /// Returns whether a path is inside of a mount of the user.
    pub(super) fn is_in_user_mount(&self, target: &Path) -> bool {
        self.user_targets.iter().any(|mount| target.starts_with(mount))
    }

    /// Adds a mount, unless the target is taken.
    pub(super) fn add(&mut self, target: &Path, mount: impl FnOnce(ByteVec) -> SandboxMount) {
        if self.taken.insert(target.to_owned()) {
            self.mounts.push((target.to_owned(), mount(bytes(target))));
        }
    }

    /// Adds a bind of Vestal's own files, unless the target is taken.
    pub(super) fn add_bind(&mut self, target: &Path, source: &Path, access: Access) {
        // Without root, a bind must include the mounts below it: leaving them out
        // could reveal what they hide.
        let bind = self.bind(target, source, access, !self.is_shifted());
        self.add(target, |_| SandboxMount::Bind(bind));
    }

    /// Adds a read-only bind of a system directory, unless the target is taken.
    pub(super) fn add_system_bind(&mut self, target: &Path, source: &Path) {
        let bind = self.bind(target, source, Access::Read, !self.is_shifted());
        // Where nothing was looked for that only root may read, root's files stay root's: nobody
        // in the sandbox is their owner.
        let shifted = bind.shifted && self.input.tier != Tier::ReadOnly;
        let bind = Bind { shifted, ..bind };
        let hidden = self.hidden_paths(source);
        let public_only = self.is_public_only() && shifted;
        self.add(target, |_| SandboxMount::Bind(Bind { hidden, public_only, ..bind }));
    }

    /// Returns whether the kernel keeps what not everyone may read of the system
    /// directories from the sandbox.
    pub(super) fn is_public_only(&self) -> bool {
        self.input.private.is_kept_by_kernel() && self.is_shifted()
    }

    /// Returns the hidden paths of a system directory.
    pub(super) fn hidden_paths(&self, source: &Path) -> Vec<ByteVec> {
        self.input.private.of(source).iter().map(|path| bytes(path)).collect()
    }

    /// Adds a bind of the user's files, with the mounts below it.
    pub(super) fn add_user_bind(
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
        self.add(target, |_| SandboxMount::Bind(Bind { identity: Some(identity), ..bind }));
        self.user_targets.insert(target.to_owned());
        self.to_hide.extend(
            covers(&input.settings.protected.hidden, &admitted.path, target)
                .into_iter()
                .map(|cover| (cover, access)),
        );
        Ok(())
    }

    /// Hides Vestal's own directories wherever the user's mounts show them. Called
    /// when all mounts of the user are planned.
    pub(super) fn hide_own_dirs(&mut self) {
        for (cover, access) in std::mem::take(&mut self.to_hide) {
            for (source, target) in &cover.fixed {
                let bind =
                    Bind { identity: identity(source), ..self.bind(target, source, access, true) };
                self.add(target, |_| SandboxMount::Bind(bind));
            }
            self.hide(&cover.target);
        }
    }

    /// Hides what is at a target under an empty tmpfs.
    pub(super) fn hide(&mut self, target: &Path) {
        self.add(target, |target| SandboxMount::Tmpfs {
            target,
            size: HIDING_TMPFS_SIZE,
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
            public_only: false,
        }
    }

    /// Plans overlay layers over a directory of the host.
    pub(super) fn layers(&mut self, name: &str, lower: &Path, mode: u32) -> OverlayDirs {
        let dir = self.input.dirs.layers.join(name);
        let (upper, work) = (dir.join("upper"), dir.join("work"));
        self.plan_dir(&dir, 0o700);
        // The mode of the mounted directory is that of the upper one.
        self.plan_sandbox_dir(&upper, mode);
        self.plan_sandbox_dir(&work, 0o700);
        OverlayDirs {
            lower: bytes(lower),
            shifted: self.is_shifted(),
            upper: bytes(&upper),
            work: bytes(&work),
            hidden: Vec::new(),
            public_only: false,
        }
    }

    /// Plans a directory to make on the host.
    pub(super) fn plan_dir(&mut self, path: &Path, mode: u32) {
        self.dirs_to_make.push(DirToMake { path: path.to_owned(), mode, owner: None });
    }

    /// Plans a directory to make on the host that the sandbox's root owns.
    pub(super) fn plan_sandbox_dir(&mut self, path: &Path, mode: u32) {
        let owner = self.is_shifted().then_some((ROOT_ID_SHIFT, ROOT_ID_SHIFT));
        self.dirs_to_make.push(DirToMake { path: path.to_owned(), mode, owner });
    }

    /// Returns the mounts, parents before their children.
    pub(super) fn into_parts(mut self) -> (Vec<SandboxMount>, Vec<DirToMake>, Vec<String>) {
        self.mounts.sort_by_key(|(target, _)| depth(target));
        let mounts = self.mounts.into_iter().map(|(_, mount)| mount).collect();
        (mounts, self.dirs_to_make, self.remarks)
    }
}

/// Returns the identity of the file at a path, without following a link.
fn identity(path: &Path) -> Option<FileIdentity> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::symlink_metadata(path).ok()?;
    Some(FileIdentity { device: found.dev(), inode: found.ino() })
}

fn depth(target: &Path) -> usize {
    target.components().filter(|part| matches!(part, Component::Normal(_))).count()
}

/// Returns a path as the stage expects it.
pub(super) fn bytes(path: &Path) -> ByteVec {
    path.as_os_str().as_bytes().to_vec().into()
}
