//! Whom the instance belongs to: who jobs run as, and what follows from that.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{
    Access, AtFlags, CWD, Gid, Mode, OFlags, Uid, accessat, chmod, chownat, fstat, openat,
};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};
use vestal_wire::GuestSettings;

use super::boot::ServeError;
use crate::diagnostics::{note, path_of};
use crate::orphans;
use crate::process::Standing;
use crate::user::{Change, Credentials, User, base_environment, resolve};

/// Permissions of a directory that are not its owner's alone.
const OTHERS: u32 = 0o077;

/// Finds out who jobs run as, and completes the settings with the home and the
/// environment that they have as that user.
pub(super) fn settle(settings: &mut GuestSettings) -> Result<Tenant, ServeError> {
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut tenant = Tenant { uid: own.0, gid: own.1, standing: Standing::default() };
    let named = settings.user.is_some();
    if named || settings.inherit_env || settings.home.is_empty() {
        let user = resolve(settings.user.as_deref())?;
        (tenant.uid, tenant.gid) = (user.uid, user.gid);
        tenant.standing.credentials = credentials(own, &user)?;
        if settings.home.is_empty() {
            settings.home = user.home.clone().into();
        }
        if named || settings.inherit_env {
            let inherited = settings.inherit_env.then(inherited).into_iter().flatten();
            settings.env = base_environment(inherited, &settings.env, &user, &settings.home);
        }
    }
    tenant.standing.files = raise_file_limit();
    Ok(tenant)
}

#[expect(clippy::disallowed_methods, reason = "it is what jobs get, and no setting of the guest")]
fn inherited() -> std::env::VarsOs {
    std::env::vars_os()
}

/// The jobs' user, as the guest has to do with it.
#[derive(Debug)]
pub(super) struct Tenant {
    uid: u32,
    gid: u32,
    pub(super) standing: Standing,
}

impl Tenant {
    /// Kills what is left of earlier instances. Each user's processes can be
    /// known and killed by that user only.
    pub(super) fn kill_marked(&self, instances: &[String]) {
        orphans::kill_marked(instances);
        if let Some(credentials) = self.standing.credentials.clone()
            && !instances.is_empty()
        {
            let instances = instances.to_vec();
            let hunt = move || orphans::kill_marked(&instances);
            if let Err(error) = as_user(credentials, hunt) {
                note(&format!("processes of earlier instances: {error}"));
            }
        }
    }

    /// Gives directories to the jobs' user: themselves, not what is in them.
    pub(super) fn hand_over<'a>(&self, directories: impl Iterator<Item = &'a [u8]>) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        for directory in directories {
            let path = path_of(directory);
            if let Err(error) = give(&path, self.uid, self.gid) {
                note(&format!("{} cannot be given to the user: {error}", path.display()));
            }
        }
    }

    /// Keeps jobs that run as another user than the guest out of its own files.
    pub(super) fn keep_out(&self, state_dir: &Path) {
        if self.standing.credentials.is_some()
            && let Err(error) = close_to_others(state_dir)
        {
            note(&format!("{} stays open to all: {error}", state_dir.display()));
        }
    }
}

/// Returns the rights that jobs run with, if they are not the guest's own, once
/// it is certain that they can be had.
fn credentials(own: (u32, u32), user: &User) -> Result<Option<Credentials>, ServeError> {
    // Jobs with the guest's own rights must not get at its memory where it is the
    // first process, which everything else in the sandbox comes from.
    if rustix::process::getpid().is_init() {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    }
    let credentials = match Change::between(own.0, own.1, user) {
        Change::None => return Ok(None),
        Change::To(credentials) => credentials,
        Change::Impossible => {
            let (name, uid) = (user.called().into_owned(), user.uid);
            return Err(ServeError::OtherUser { name, uid, own: own.0 });
        }
    };
    // A job's process must not get at the guest's memory by way of a thread
    // that has the same rights.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    match as_user(credentials.clone(), || ()) {
        Ok(()) => Ok(Some(credentials)),
        Err(source) => {
            let (name, uid) = (user.called().into_owned(), user.uid);
            Err(ServeError::Rights { name, uid, source })
        }
    }
}

/// Does something with the rights of the jobs' user, on a thread of its own.
fn as_user(credentials: Credentials, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().spawn(move || {
        credentials.borrow()?;
        work();
        Ok(())
    })?;
    thread.join().unwrap_or(Err(Errno::INTR)).map_err(io::Error::from)
}

/// Takes all the descriptors that this process may have, and returns how many
/// it was meant to have: a guest serves many, a job may count on the usual.
fn raise_file_limit() -> Option<Rlimit> {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    (before.current != before.maximum && setrlimit(Resource::Nofile, raised).is_ok())
        .then_some(before)
}

/// Opens a directory itself, and not what a link in its place leads to.
fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
}

fn give(path: &Path, uid: u32, gid: u32) -> Result<(), Errno> {
    let directory = open_directory(path)?;
    let stat = fstat(&directory)?;
    if (stat.st_uid, stat.st_gid) == (uid, gid) {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    chownat(&directory, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
}

/// Takes everybody's rights to a directory but its owner's, unless that would
/// lock this process out.
fn close_to_others(path: &Path) -> Result<(), Errno> {
    let directory = open_directory(path)?;
    let mode = fstat(&directory)?.st_mode;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let handle = format!("/proc/self/fd/{}", directory.as_raw_fd());
    chmod(&handle, Mode::from_raw_mode(mode & !OTHERS & 0o7777))?;
    let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    let usable = accessat(&directory, c".", wanted, AtFlags::EACCESS);
    if usable.is_err() {
        chmod(&handle, Mode::from_raw_mode(mode & 0o7777))?;
    }
    usable
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_state_directory_that_is_open_to_all_is_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        for (before, after) in [(0o777, 0o700), (0o1777, 0o1700), (0o700, 0o700)] {
            std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(before)).unwrap();
            close_to_others(dir.path()).unwrap();
            let mode = dir.path().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, after);
        }
    }

    #[test]
    fn a_link_in_place_of_a_directory_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        std::fs::create_dir(&target).unwrap();
        std::fs::set_permissions(&target, PermissionsExt::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert_eq!(close_to_others(&link), Err(Errno::NOTDIR));
        assert_eq!(give(&link, 1, 1), Err(Errno::NOTDIR));
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o777);
    }
}
