//! The whole sandbox.

use std::path::{Component, Path, PathBuf};

use vestal_wire::{Enclosure, Network};

use super::capabilities::capabilities;
use super::etc::etc;
use super::input::{PlanInput, Planned};
use super::layout::{Layout, bytes};
use super::mounts::{can_be_made, mounts, place};
use super::places::{HOME, files, kernel_and_guest, memory};
use super::system::{directory, system};
use super::user_limits::user_limits;
use crate::backend::BackendError;
use crate::backends::layout::WORKSPACE;
use crate::backends::native::choose;
use crate::backends::native::filters::filters;

/// The name of the machine that a sandbox takes itself for. It is in the
/// picture of `/etc/hosts`, which sandboxes share.
pub(in crate::backends::native) const HOSTNAME: &str = "vestal";

/// Returns the sandbox that settings and facts call for.
pub(in crate::backends::native) fn enclosure(
    input: &PlanInput<'_>,
) -> Result<Planned, BackendError> {
    let mut layout = Layout::new(input);
    kernel_and_guest(&mut layout);
    mounts(&mut layout)?;
    files(&mut layout)?;
    layout.cover_ours();
    let root = system(&mut layout)?;
    etc(&mut layout);
    memory(&mut layout);
    let start_dir = start_dir(&mut layout)?;
    let (places, make, remarks) = layout.into_places();
    let network = if input.settings.network { Network::Host } else { Network::None };
    let enclosure = Enclosure {
        users: input.users.clone(),
        network,
        hostname: HOSTNAME.to_owned(),
        root,
        mounts: places,
        cgroups: input.cgroups.iter().map(|file| bytes(file)).collect(),
        capabilities: capabilities(input.tier, choose::owners(&input.users)),
        filters: filters()?,
        max_processes: input.max_processes,
        purpose: input.purpose.clone(),
        user_limits: Some(user_limits(&input.facts.counted)),
    };
    Ok(Planned {
        enclosure,
        make,
        start_dir,
        home: PathBuf::from(HOME),
        weakened: input.settings.volumes.weakens(),
        remarks,
    })
}

/// Returns where commands start, and has that made where the sandbox can have
/// it.
fn start_dir(layout: &mut Layout<'_>) -> Result<PathBuf, BackendError> {
    let Some(asked) = layout.input.settings.cwd.clone() else {
        return Ok(PathBuf::from(WORKSPACE));
    };
    let plain = asked.components().all(|part| !matches!(part, Component::ParentDir));
    if plain && asked != Path::new("/") {
        let target = place(layout, &asked)?;
        if can_be_made(layout, &target) {
            directory(layout, &target, 0o755);
        }
    }
    Ok(asked)
}
