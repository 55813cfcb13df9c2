//! Holding a command where it is.

use std::path::PathBuf;

use super::{World, until};

/// Where a command waits until a case lets it go on.
#[derive(Debug)]
pub(crate) struct Gate {
    reached: PathBuf,
    open: PathBuf,
    passed: PathBuf,
}

impl Gate {
    /// Returns the gate of a world, which is closed.
    pub(crate) fn new(world: &World) -> Self {
        Self {
            reached: world.scratch("gate-reached"),
            open: world.scratch("gate-open"),
            passed: world.scratch("gate-passed"),
        }
    }

    /// Returns the shell text that goes through the gate.
    pub(crate) fn pass(&self) -> String {
        format!(
            "echo > {}; until [ -e {} ]; do sleep 0.01; done; echo > {}",
            self.reached.display(),
            self.open.display(),
            self.passed.display()
        )
    }

    /// Waits until the command is at the gate.
    pub(crate) async fn reached(&self) {
        until("a command is at the gate", || async { self.reached.exists() }).await;
    }

    /// Opens the gate and waits until the command has gone through.
    pub(crate) async fn open(&self) {
        std::fs::write(&self.open, "").unwrap();
        until("the command has gone on", || async { self.passed.exists() }).await;
    }
}
