//! The filesystem of a sandbox.
//!
//! Everything is named by descriptors: sources are opened before anything is
//! mounted, targets are walked to below the new root without following a link.
//! So nothing that somebody planted in either leads anywhere else.

mod bind;
mod context;
mod devices;
mod hidden;
mod layers;
mod memory;
mod parts;
mod pivot;
mod processes;
mod target;

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::mount::{MountPropagationFlags, mount_change};
use vestal_wire::{Enclosure, Purpose};

use self::parts::{Part, RootPart};
use self::target::NewRoot;
use super::lifeline::First;
use crate::failpoint::failpoint;
use crate::failure::{Failure, Step, failed};
use crate::users::{Owner, outside};

/// What all parts of a sandbox are built with.
#[derive(Debug, Clone, Copy)]
struct Builder<'a> {
    /// Who root of the sandbox is.
    owner: Owner,
    /// The group that terminals belong to, as this process knows it.
    terminals: Option<u32>,
    /// The users of the sandbox, where files of the host are shown as theirs.
    users: Option<BorrowedFd<'a>>,
    /// Whether what is written is to be there after the machine has failed.
    lasting: bool,
}

/// Builds the filesystem of a sandbox and leaves the host's.
pub(super) fn build(
    plan: &Enclosure,
    users: Option<BorrowedFd<'_>>,
    lifeline: &First,
) -> Result<(), Failure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(failed(Step::PrivateMounts))?;
    let (root, parts) = parts::open(plan)?;
    let builder = Builder {
        owner: Owner::of(&plan.users),
        terminals: terminals(plan),
        users,
        lasting: plan.purpose != Purpose::Trial,
    };
    let parts = parts.into_iter().map(|part| {
        let shown = match &part {
            Part::Bind { bind, source } => Some(builder.shown(bind, source)?),
            _ => None,
        };
        Ok::<_, Failure>((part, shown))
    });
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let mut root = builder.root(root)?;
    failpoint!("stage.first.after-root");
    for (part, shown) in parts {
        lifeline.check();
        builder.place(&mut root, part, shown.as_ref())?;
    }
    failpoint!("stage.first.after-places");
    pivot::pivot(&root).map_err(failed(Step::Pivot))
}

/// The group `tty` of every distribution.
const TTY: u32 = 5;

/// Returns the group that terminals belong to, if the sandbox has it.
fn terminals(plan: &Enclosure) -> Option<u32> {
    let on_host = outside(&plan.users.gids, TTY)?;
    match Owner::of(&plan.users) {
        Owner::Myself => Some(TTY),
        Owner::Other { .. } => Some(on_host),
    }
}

impl Builder<'_> {
    fn root(&self, root: RootPart<'_>) -> Result<NewRoot, Failure> {
        let (mount, at) = match root {
            RootPart::Directory { path, source } => {
                let mount = bind::directory(&source)
                    .map_err(|error| Failure::of(Step::Root, error).at(path))?;
                (mount, source)
            }
            RootPart::Layers(layers) => {
                let mount = self.layers(&layers).map_err(|failure| failure.at(b"/"))?;
                (mount, layers.upper)
            }
        };
        // It is mounted over the directory that it is made of, for want of any
        // other that is surely there and in nobody's way.
        target::attach(&mount, &at).map_err(|error| Failure::of(Step::Root, error).at(b"/"))?;
        NewRoot::new(mount, self.owner)
    }

    fn place(
        &self,
        root: &mut NewRoot,
        part: Part<'_>,
        shown: Option<&OwnedFd>,
    ) -> Result<(), Failure> {
        match part {
            Part::Bind { bind, source } => match shown {
                Some(mount) => self.bind(root, bind, &source, mount),
                None => {
                    let failure = Failure::new(Step::Bind, "it was not taken beforehand");
                    Err(failure.at(bind.target.as_slice()))
                }
            },
            Part::Layers { target, layers } => {
                let at = root.directory(target, 0o755)?;
                let mount = self.layers(&layers).map_err(|failure| failure.at(target))?;
                root.own(&mount, &at).map_err(|error| Failure::of(Step::Layers, error).at(target))
            }
            Part::Memory { target, memory } => {
                let at = root.directory(target, memory.mode)?;
                let mount = self.memory(&memory).map_err(|failure| failure.at(target))?;
                root.own(&mount, &at).map_err(|error| Failure::of(Step::Memory, error).at(target))
            }
            Part::Processes { target } => processes::mount(root, target),
            Part::Devices { target, shared_memory } => self.devices(root, target, shared_memory),
            Part::Link { target, text } => root.link(target, text),
            Part::Directory { target, mode } => root.directory(target, mode).map(drop),
        }
    }
}
