//! Memory in place of a disk.

use std::os::fd::OwnedFd;

use super::Builder;
use super::bind::HARMLESS;
use super::context::Context;
use crate::failure::{Failure, Step};
use crate::users::Owner;

/// How much of it, and for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) exec: bool,
}

impl Builder<'_> {
    /// Returns a mount of memory.
    pub(super) fn memory(&self, memory: &Memory) -> Result<OwnedFd, Failure> {
        let exec = if memory.exec { 0 } else { libc::MOUNT_ATTR_NOEXEC };
        self.memory_with(Step::Memory, memory, HARMLESS | exec)
    }

    /// Returns a mount of memory with attributes.
    pub(super) fn memory_with(
        &self,
        step: Step,
        memory: &Memory,
        attributes: u64,
    ) -> Result<OwnedFd, Failure> {
        let mut context = Context::new(step, "tmpfs")?
            .set("size", &memory.size.to_string())?
            .set("mode", &format!("{:o}", memory.mode))?;
        if let Owner::Other { uid, gid } = self.owner {
            context = context.set("uid", &uid.to_string())?.set("gid", &gid.to_string())?;
        }
        context.mount(attributes)
    }
}
