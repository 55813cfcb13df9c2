//! Places where a test may kill this process.
//!
//! Compiled in only with the feature `failpoints`; otherwise nothing is left of
//! them. The variable `VESTAL_FAILPOINT` names one; reaching it is SIGKILL, as
//! a crash would be.

/// Every failpoint of a supervisor, in the order of a slot's life.
#[cfg(feature = "failpoints")]
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
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "a test's own switch is not a setting")]
pub(crate) fn reach(name: &str) {
    debug_assert!(NAMES.contains(&name), "{name} is not listed");
    if std::env::var_os("VESTAL_FAILPOINT").is_some_and(|wanted| wanted == name) {
        // SIGKILL of itself cannot be caught and cannot fail.
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .ok();
    }
}

/// Does nothing in ordinary builds.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(crate) fn reach(_name: &str) {}
