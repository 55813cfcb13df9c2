//! The user that jobs run as, and what the guest does on that user's behalf.

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

use crate::diagnostics::{note, path_of};
use crate::orphans;
use crate::process::JobRights;
use crate::serve::GuestError;
use crate::user::{Credentials, User, UserChange, base_environment, resolve};

/// Permissions of everybody except the owner.
const OTHERS: u32 = 0o077;

/// Finds the user of jobs, and completes the settings with the user's home and
/// environment.
pub(crate) fn find_job_user(settings: &mut GuestSettings) -> Result<JobUser, GuestError> {
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut job_user = JobUser { uid: own.0, gid: own.1, rights: JobRights::default() };
    let named = settings.user.is_some();
    if named || settings.inherit_env || settings.home.is_empty() {
        let user = resolve(settings.user.as_deref())?;
        (job_user.uid, job_user.gid) = (user.uid, user.gid);
        job_user.rights.credentials = credentials(own, &user)?;
        if settings.home.is_empty() {
            settings.home = user.home.clone().into();
        }
        if named || settings.inherit_env {
            let inherited = settings.inherit_env.then(inherited).into_iter().flatten();
            settings.env = base_environment(inherited, &settings.env, &user, &settings.home);
        }
    }
    job_user.rights.files = raise_file_limit();
    Ok(job_user)
}

#[expect(clippy::disallowed_methods, reason = "it is what jobs get, and no setting of the guest")]
fn inherited() -> std::env::VarsOs {
    std::env::vars_os()
}

#[derive(Debug)]
pub(crate) struct JobUser {
    uid: u32,
    gid: u32,
    pub(crate) rights: JobRights,
}

impl JobUser {
    /// Kills processes of earlier instances. Each user's processes can only be
    /// identified and killed by that user.
    pub(crate) fn kill_marked(&self, instances: &[String]) {
        orphans::kill_marked(instances);
        if let Some(credentials) = self.rights.credentials.clone()
            && !instances.is_empty()
        {
            let instances = instances.to_vec();
            let kill = move || orphans::kill_marked(&instances);
            if let Err(error) = as_user(credentials, kill) {
                note(&format!("processes of earlier instances: {error}"));
            }
        }
    }

    /// Gives directories to the user of jobs, but not their content.
    pub(crate) fn give_directories<'a>(&self, directories: impl Iterator<Item = &'a [u8]>) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        for directory in directories {
            let path = path_of(directory);
            if let Err(error) = set_owner(&path, self.uid, self.gid) {
                note(&format!("{} cannot be given to the user: {error}", path.display()));
            }
        }
    }

    /// Denies jobs of another user access to the guest's files.
    pub(crate) fn protect_state_dir(&self, state_dir: &Path) {
        if self.rights.credentials.is_some()
            && let Err(error) = close_to_others(state_dir)
        {
            note(&format!("cannot close {} to other users: {error}", state_dir.display()));
        }
    }
}

/// Returns the credentials of jobs if they differ from the guest's own, after
/// checking that they can be assumed.
fn credentials(own: (u32, u32), user: &User) -> Result<Option<Credentials>, GuestError> {
    // Jobs with the guest's own rights must not access its memory if it is the
    // first process, from which everything in the sandbox descends.
    if rustix::process::getpid().is_init() {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    }
    let credentials = match UserChange::between(own.0, own.1, user) {
        UserChange::None => return Ok(None),
        UserChange::To(credentials) => credentials,
        UserChange::Impossible => {
            let (name, uid) = (user.display_name().into_owned(), user.uid);
            return Err(GuestError::OtherUser { name, uid, own: own.0 });
        }
    };
    // A job must not access the guest's memory through a thread with the same
    // rights.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    match as_user(credentials.clone(), || ()) {
        Ok(()) => Ok(Some(credentials)),
        Err(source) => {
            let (name, uid) = (user.display_name().into_owned(), user.uid);
            Err(GuestError::Rights { name, uid, source })
        }
    }
}

/// Runs a function with the rights of the jobs' user, on a separate thread.
fn as_user(credentials: Credentials, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().spawn(move || {
        credentials.borrow()?;
        work();
        Ok(())
    })?;
    thread.join().unwrap_or(Err(Errno::INTR)).map_err(io::Error::from)
}

/// Raises the limit of open files to the maximum, and returns the previous limit,
/// which jobs get.
fn raise_file_limit() -> Option<Rlimit> {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    (before.current != before.maximum && setrlimit(Resource::Nofile, raised).is_ok())
        .then_some(before)
}

/// Opens a directory itself, and not the target of a link in its place.
fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
}

fn set_owner(path: &Path, uid: u32, gid: u32) -> Result<(), Errno> {
    let directory = open_directory(path)?;
    let stat = fstat(&directory)?;
    if (stat.st_uid, stat.st_gid) == (uid, gid) {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    chownat(&directory, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
}

/// Removes all permissions of a directory except its owner's, unless that would
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
    use std::os::unix::fs::PermissionsExt;

    use super::*;

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
        let (target, transfer) = (dir.path().join("target"), dir.path().join("transfer"));
        std::fs::create_dir(&target).unwrap();
        std::fs::set_permissions(&target, PermissionsExt::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink(&target, &transfer).unwrap();
        assert_eq!(close_to_others(&transfer), Err(Errno::NOTDIR));
        assert_eq!(set_owner(&transfer, 1, 1), Err(Errno::NOTDIR));
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o777);
    }
}
