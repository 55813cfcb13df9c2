//! Places where a test may kill this process.
//!
//! Compiled in only with the feature `failpoints`; [`vestal_process::failpoint`] says more.

/// Every failpoint of a supervisor, in the order of a slot's life.
#[cfg_attr(not(feature = "failpoints"), allow(unreachable_pub, reason = "for tests only"))]
pub const NAMES: &[&str] = &[
    "boot.locked",
    "boot.leftovers-ended",
    "boot.slots-registered",
    "start.desired-written",
    "start.intent-written",
    "start.spawned",
    "start.recorded",
    "start.ready",
    "stop.desired-written",
    "stop.note-written",
    "stop.signalled",
    "stop.ended",
    "stop.record-removed",
];

/// Dies here if the test asks for it.
pub(crate) fn reach(name: &str) {
    vestal_process::failpoint::reach(NAMES, name);
}
