//! Holding a command where it is.

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{BackendFixture, until};

/// Where a command waits until a case lets it continue.
#[derive(Debug)]
pub(crate) struct Gate {
    reached: PathBuf,
    passed: PathBuf,
    /// The shell text that goes through it.
    text: String,
    /// Held open at both ends, so that neither side waits for the other to open
    /// it.
    key: File,
}

impl Gate {
    /// Returns the gate of a fixture, which is closed.
    pub(crate) fn new(fixture: &BackendFixture) -> Self {
        let [(reached, reached_there), (way, way_there), (passed, passed_there)] =
            ["gate-reached", "gate-way", "gate-passed"].map(|name| fixture.meeting_place(name));
        mknodat(CWD, &way, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::fs::set_permissions(&way, Permissions::from_mode(0o666)).unwrap();
        Self {
            reached,
            key: File::options().read(true).write(true).open(&way).unwrap(),
            passed,
            text: format!(
                "echo > {}; read gate < {}; echo > {}",
                reached_there.display(),
                way_there.display(),
                passed_there.display()
            ),
        }
    }

    /// Returns the shell text that goes through the gate.
    pub(crate) fn pass(&self) -> String {
        self.text.clone()
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
