//! Extended attributes.

use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;

use rustix::fs::{
    XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, lgetxattr, llistxattr, lsetxattr,
};
use rustix::io::{Errno, Result};

/// What belongs to a file itself. Others are for the system that it lies in to
/// give: labels of its policy, marks of its storage.
const KEPT: [&[u8]; 3] = [b"user.", b"trusted.overlay.", b"system.posix_acl_"];
const CAPABILITY: &[u8] = b"security.capability";

/// Access rules that a directory gives to what is made in it.
const INHERITED: [&CStr; 2] = [c"system.posix_acl_default", c"system.posix_acl_access"];

/// Most bytes that the kernel has names or a value in.
const MOST: usize = 64 << 10;

/// A file whose attributes are read or set.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of<'a> {
    /// One that is open.
    Open(BorrowedFd<'a>),
    /// One that cannot be opened, or is better not.
    Named(&'a CStr),
}

impl Of<'_> {
    fn list(self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Self::Open(file) => flistxattr(file, buffer),
            Self::Named(path) => llistxattr(path, buffer),
        }
    }

    fn get(self, name: &CStr, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Self::Open(file) => fgetxattr(file, name, buffer),
            Self::Named(path) => lgetxattr(path, name, buffer),
        }
    }

    fn set(self, name: &CStr, value: &[u8]) -> Result<()> {
        match self {
            Self::Open(file) => fsetxattr(file, name, value, XattrFlags::empty()),
            Self::Named(path) => lsetxattr(path, name, value, XattrFlags::empty()),
        }
    }
}

/// Where attributes are held on their way.
#[derive(Debug)]
pub(super) struct Attributes {
    buffer: Vec<u8>,
    names: Vec<CString>,
}

impl Attributes {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; MOST], names: Vec::new() }
    }

    /// Finds the attributes of a file that are copied, and returns whether
    /// there are any.
    pub(super) fn find(&mut self, of: Of<'_>) -> Result<bool> {
        self.names.clear();
        let length = match of.list(&mut self.buffer) {
            Ok(length) => length,
            Err(Errno::OPNOTSUPP) => 0,
            Err(error) => return Err(error),
        };
        let names = self.buffer[..length].split_inclusive(|byte| *byte == 0);
        let names = names.filter_map(|name| CStr::from_bytes_with_nul(name).ok());
        self.names.extend(names.filter(|name| is_kept(name.to_bytes())).map(CStr::to_owned));
        Ok(!self.names.is_empty())
    }

    /// Copies the attributes that were found.
    pub(super) fn copy(&mut self, from: Of<'_>, to: Of<'_>) -> Result<()> {
        for name in &self.names {
            match from.get(name, &mut self.buffer) {
                Ok(length) => to.set(name, &self.buffer[..length])?,
                // Taken away meanwhile.
                Err(Errno::NODATA) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Takes away the rules that a directory was given by the one it was made in.
pub(super) fn disinherit(directory: BorrowedFd<'_>) -> Result<()> {
    for name in INHERITED {
        match fremovexattr(directory, name) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_kept(name: &[u8]) -> bool {
    name == CAPABILITY || KEPT.iter().any(|kept| name.starts_with(kept))
}
