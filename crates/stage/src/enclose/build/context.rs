//! Filesystems that are made for the sandbox.

use std::io;
use std::os::fd::OwnedFd;

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};

use crate::failure::{Failure, Step};

/// Longest message of the kernel that is read.
const MAX_MESSAGE: usize = 512;

/// A filesystem that is not there yet.
#[derive(Debug)]
pub(super) struct Context {
    step: Step,
    context: OwnedFd,
}

impl Context {
    /// Begins a filesystem of a sort.
    pub(super) fn new(step: Step, sort: &str) -> Result<Self, Failure> {
        let context = fsopen(sort, FsOpenFlags::FSOPEN_CLOEXEC)
            .map_err(|error| Failure::of(step, error).because(sort))?;
        Ok(Self { step, context })
    }

    /// Sets an option.
    pub(super) fn set(self, key: &str, value: &str) -> Result<Self, Failure> {
        match fsconfig_set_string(&self.context, key, value) {
            Ok(()) => Ok(self),
            Err(error) => Err(self.failed(error.into()).because(key)),
        }
    }

    /// Sets an option that has no value.
    pub(super) fn flag(self, key: &str) -> Result<Self, Failure> {
        match fsconfig_set_flag(&self.context, key) {
            Ok(()) => Ok(self),
            Err(error) => Err(self.failed(error.into()).because(key)),
        }
    }

    /// Returns a mount of it.
    pub(super) fn mount(self, attributes: u64) -> Result<OwnedFd, Failure> {
        let bits = u32::try_from(attributes).map_err(|_| self.failed(invalid()))?;
        let attributes = MountAttrFlags::from_bits_retain(bits);
        fsconfig_create(&self.context)
            .and_then(|()| fsmount(&self.context, FsMountFlags::FSMOUNT_CLOEXEC, attributes))
            .map_err(|error| self.failed(error.into()))
    }

    /// Returns a failure with what the kernel said of it.
    fn failed(&self, error: io::Error) -> Failure {
        let failure = Failure::of(self.step, error);
        let mut message = [0; MAX_MESSAGE];
        match rustix::io::read(&self.context, &mut message) {
            // A letter for how bad it is, and a space, come first.
            Ok(count @ 3..) => {
                let text = String::from_utf8_lossy(&message[2..count]).into_owned();
                failure.because(text.trim())
            }
            _ => failure,
        }
    }
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidInput.into()
}
