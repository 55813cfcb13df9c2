//! Places where a test may kill a dispatcher.

/// Every failpoint of a dispatcher, in the order of a task's way.
pub(crate) const NAMES: &[&str] = &[
    "dispatch.claimed",
    "dispatch.workspace-made",
    "dispatch.launched",
    "dispatch.stop-intended",
    "dispatch.stopped",
];

/// Dies here if the test asks for it.
pub(crate) fn reach(name: &str) {
    vestal_process::failpoint::reach(NAMES, name);
}
