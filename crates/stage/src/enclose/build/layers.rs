//! Directories that show others and keep what is changed to themselves.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use super::Builder;
use super::bind::{HARMLESS, copy};
use super::context::Context;
use super::parts::OpenLayers;
use super::target::attach;
use crate::failure::{Failure, Step, failed};
use crate::sys::mount::{Reach, shift_owners};
use crate::users::Owner;

impl Builder<'_> {
    /// Returns a mount of layers.
    pub(super) fn layers(&self, layers: &OpenLayers) -> Result<OwnedFd, Failure> {
        if !layers.shifted {
            return self.overlay(&layers.lower, layers);
        }
        let Some(users) = self.users else {
            return Err(Failure::new(Step::Plan, "owners can only be shifted by root"));
        };
        let lower = copy(&layers.lower, Reach::One).map_err(failed(Step::Layers))?;
        let attributes = HARMLESS | libc::MOUNT_ATTR_RDONLY;
        shift_owners(&lower, Reach::One, attributes, users)
            .map_err(|error| Failure::of(Step::Layers, error).because("owners are not shifted"))?;
        // Most kernels make layers only of what is mounted somewhere. It is so
        // over a directory that nobody looks at any more, and goes with the old
        // root: to unmount it by itself takes longer than all the rest.
        attach(&lower, &layers.upper).map_err(failed(Step::Layers))?;
        self.overlay(&lower, layers)
    }

    fn overlay(&self, lower: &OwnedFd, layers: &OpenLayers) -> Result<OwnedFd, Failure> {
        let hiding = self.hiding(lower, &layers.hidden, &layers.work)?;
        let context = overlay(hiding.as_ref(), lower)?
            .set("upperdir", &handle(&layers.upper))?
            .set("workdir", &handle(&layers.work))?;
        let context = match self.owner {
            Owner::Other { .. } => context,
            // Only root of the host has the attributes that are used otherwise.
            Owner::Myself => context.flag("userxattr")?,
        };
        // Otherwise the disk is waited for when they are unmounted.
        let context = if self.lasting { context } else { context.flag("volatile")? };
        context.mount(HARMLESS)
    }

    /// Returns a mount of a directory that can only be read, without some of
    /// what is in it. `at` is where the kernel may have what hides it.
    pub(super) fn without(
        &self,
        lower: &OwnedFd,
        hidden: &[PathBuf],
        at: &OwnedFd,
    ) -> Result<OwnedFd, Failure> {
        let hiding = self.hiding(lower, hidden, at)?;
        overlay(hiding.as_ref(), lower)?.mount(HARMLESS | libc::MOUNT_ATTR_RDONLY)
    }
}

/// Begins layers with nothing to write to yet.
///
/// Descriptors in place of paths: those may be longer than an option can be, and
/// are nobody's business in the sandbox, where options are shown. Layers are
/// copied, and the lower one changes with the host: so nothing is kept that ties
/// the upper to the inodes of either.
fn overlay(hiding: Option<&OwnedFd>, lower: &OwnedFd) -> Result<Context, Failure> {
    let lowers: Vec<String> = hiding.into_iter().chain([lower]).map(handle).collect();
    Context::new(Step::Layers, "overlay")?
        .set("lowerdir", &lowers.join(":"))?
        .set("index", "off")?
        .set("metacopy", "off")?
        .set("redirect_dir", "nofollow")
}

/// Returns the path by which a descriptor is found.
fn handle(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}
