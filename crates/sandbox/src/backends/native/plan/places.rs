//! Places that every sandbox has: the kernel's, ours, the sandbox's files and
//! memory.

use std::path::Path;

use vestal_wire::SandboxMount;

use super::layout::{Access, Layout};
use crate::backend::BackendError;
use crate::backends::layout::{BOOT_DIR, IO_DIR, STATE_DIR, WORKSPACE};

/// The home of whoever runs commands.
pub(super) const HOME: &str = "/root";

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes of memory that processes share by name.
const SHARED_MEMORY: u64 = 64 * MIB;

/// Memory that is gone with the sandbox's processes.
const MEMORY: [Memory; 3] = [
    Memory { target: "/tmp", size: 512 * MIB, mode: 0o1777, exec: true },
    Memory { target: "/var/tmp", size: 256 * MIB, mode: 0o1777, exec: false },
    Memory { target: "/run", size: 64 * MIB, mode: 0o755, exec: false },
];

/// What the workspace is where it is not kept.
const WORKSPACE_IN_MEMORY: Memory =
    Memory { target: WORKSPACE, size: 10 * GIB, mode: 0o777, exec: true };

/// What the home is where it is not kept.
const HOME_IN_MEMORY: Memory = Memory { target: HOME, size: GIB, mode: 0o700, exec: true };

#[derive(Debug, Clone, Copy)]
struct Memory {
    target: &'static str,
    size: u64,
    mode: u32,
    exec: bool,
}

impl Memory {
    fn put(self, layout: &mut Layout<'_>) {
        let Self { target, size, mode, exec } = self;
        layout.put(Path::new(target), |target| SandboxMount::Tmpfs { target, size, mode, exec });
    }
}

/// Lays out what is the kernel's and ours. Nothing of the user's can take its
/// place.
pub(super) fn kernel_and_guest(layout: &mut Layout<'_>) {
    layout.put(Path::new("/proc"), |target| SandboxMount::Proc { target });
    layout.put(Path::new("/dev"), |target| SandboxMount::Dev {
        target,
        shared_memory: SHARED_MEMORY,
    });
    let dirs = layout.input.dirs;
    for (source, target, access) in [
        // What runs in a sandbox must not change what the host starts in it.
        (&dirs.boot, BOOT_DIR, Access::Read),
        (&dirs.io, IO_DIR, Access::Write),
        (&dirs.state, STATE_DIR, Access::Write),
    ] {
        layout.put_own(Path::new(target), source, access);
    }
    layout.make(&dirs.io, 0o700);
    layout.make(&dirs.state, 0o700);
}

/// Lays out the sandbox's files.
pub(super) fn files(layout: &mut Layout<'_>) -> Result<(), BackendError> {
    let (dirs, settings) = (layout.input.dirs, layout.input.settings);
    let workspace = Path::new(WORKSPACE);
    match &settings.mount {
        Some(_) if layout.is_taken(workspace) => {
            return Err(BackendError::Advised {
                problem: format!(
                    "both the launch directory and something else are to be mounted at {WORKSPACE}"
                ),
                advice: "remove the other from terminal.docker_volumes, or don't mount the launch \
                         directory"
                    .to_owned(),
            });
        }
        Some(mounted) => layout.put_for_user(workspace, mounted, Access::Write)?,
        None => kept(layout, &dirs.workspace, 0o755, WORKSPACE_IN_MEMORY),
    }
    kept(layout, &dirs.home, 0o700, HOME_IN_MEMORY);
    Ok(())
}

/// Lays out a directory that is on disk where files are kept.
fn kept(layout: &mut Layout<'_>, source: &Path, mode: u32, memory: Memory) {
    let target = Path::new(memory.target);
    if layout.is_taken(target) {
        return;
    }
    if !layout.input.settings.persistent {
        memory.put(layout);
        return;
    }
    layout.make(source, mode);
    layout.put_own(target, source, Access::Write);
}

/// Lays out what is kept in memory and dies with the sandbox's processes.
pub(super) fn memory(layout: &mut Layout<'_>) {
    for memory in MEMORY {
        memory.put(layout);
    }
}
