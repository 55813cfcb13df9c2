//! Holding a command where it is.

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{World, until};

/// Where a command waits until a case lets it go on.
#[derive(Debug)]
pub(crate) struct Gate {
    reached: PathBuf,
    way: PathBuf,
    passed: PathBuf,
    /// Held open at both ends, so that neither side waits for the other to open
    /// it.
    key: File,
}

impl Gate {
    /// Returns the gate of a world, which is closed.
    pub(crate) fn new(world: &World) -> Self {
        let way = world.scratch("gate-way");
        mknodat(CWD, &way, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::fs::set_permissions(&way, Permissions::from_mode(0o666)).unwrap();
        Self {
            reached: world.scratch("gate-reached"),
            key: File::options().read(true).write(true).open(&way).unwrap(),
            way,
            passed: world.scratch("gate-passed"),
        }
    }

    /// Returns the shell text that goes through the gate.
    pub(crate) fn pass(&self) -> String {
        format!(
            "echo > {}; read gate < {}; echo > {}",
            self.reached.display(),
            self.way.display(),
            self.passed.display()
        )
    }

    /// Waits until the command is at the gate.
    pub(crate) async fn reached(&self) {
        until("a command is at the gate", || async { self.reached.exists() }).await;
    }

    /// Opens the gate and waits until the command has gone through.
    pub(crate) async fn open(&self) {
        (&self.key).write_all(b"\n").unwrap();
        until("the command has gone on", || async { self.passed.exists() }).await;
    }
}
