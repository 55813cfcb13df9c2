//! Rights of a thread or process, as the kernel counts them.

use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::resolve::User;

/// The rights of a user that the guest is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

/// What it takes to have jobs run as a user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing: the guest is that user.
    None,
    /// Their processes take on these rights.
    To(Credentials),
    /// It cannot be done: the guest is somebody else and not root.
    Impossible,
}

impl Change {
    /// Returns what it takes for a guest with these ids to run jobs as `user`.
    pub(crate) fn between(uid: u32, gid: u32, user: &User) -> Self {
        // A guest that is the user has the groups it was given, also where it
        // may not take any.
        if user.uid == uid && (user.gid == gid || uid != 0) {
            return Self::None;
        }
        if uid != 0 {
            return Self::Impossible;
        }
        Self::To(Credentials {
            uid: Uid::from_raw(user.uid),
            gid: Gid::from_raw(user.gid),
            groups: user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect(),
        })
    }
}

impl Credentials {
    /// Makes the calling thread the user's for good. In a process that is about
    /// to execute a program this is all there is to it.
    pub(crate) fn assume(&self) -> Result<(), Errno> {
        self.take_groups()?;
        set_thread_res_uid(self.uid, self.uid, self.uid)
    }

    /// Has the calling thread act with the user's rights, and with no others:
    /// it may touch the files that the user may touch, and signal the user's
    /// processes. It stays the guest's all the same, so that the user can
    /// neither trace nor signal the guest through it.
    pub(crate) fn borrow(&self) -> Result<(), Errno> {
        self.take_groups()?;
        set_thread_res_uid(None, self.uid, None)
    }

    /// Returns the user's number.
    pub(crate) const fn uid(&self) -> Uid {
        self.uid
    }

    fn take_groups(&self) -> Result<(), Errno> {
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.gid, self.gid, self.gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32, gid: u32) -> User {
        User { uid, gid, groups: vec![gid], name: None, home: b"/".to_vec(), shell: None }
    }

    #[test]
    fn only_root_becomes_somebody_else() {
        assert!(matches!(Change::between(0, 0, &user(1000, 1000)), Change::To(_)));
        assert!(matches!(Change::between(0, 0, &user(0, 1000)), Change::To(_)));
        assert_eq!(Change::between(0, 0, &user(0, 0)), Change::None);
        assert_eq!(Change::between(1000, 1000, &user(1000, 5)), Change::None);
        assert_eq!(Change::between(1000, 1000, &user(1001, 1000)), Change::Impossible);
        assert_eq!(Change::between(1000, 1000, &user(0, 0)), Change::Impossible);
    }
}
