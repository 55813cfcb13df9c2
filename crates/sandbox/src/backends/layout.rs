//! Paths in a sandbox with a system of its own, the same in every backend.

/// The guest's program and settings, which the sandbox may only read.
pub(super) const BOOT_DIR: &str = "/.vestal/boot";
/// The guest's program.
pub(super) const GUEST_FILE: &str = "/.vestal/boot/guest";
/// The guest's settings.
pub(super) const SETTINGS_FILE: &str = "/.vestal/boot/settings";
/// The guest's socket.
pub(super) const IO_DIR: &str = "/.vestal/io";
/// The guest's journal, logs and sessions.
pub(super) const STATE_DIR: &str = "/.vestal/state";
pub(super) use crate::backend::WORKSPACE;
