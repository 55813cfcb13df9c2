//! Places where a test may kill a gateway.

/// Every failpoint of a gateway, in the order of its life.
#[cfg_attr(not(feature = "failpoints"), allow(unreachable_pub, reason = "for tests only"))]
pub const NAMES: &[&str] = &[
    "start.claimed",
    "start.controlled",
    "start.listening",
    "start.running",
    "turn.recorded",
    "run.recorded",
    "run.resumed",
    "turn.ended",
    "run.ended",
    "turn.settled",
    "jobs.news-taken",
    "drain.begun",
    "drain.turns-ended",
    "drain.recorded",
];

/// Dies here if the test asks for it.
pub(crate) fn reach(name: &str) {
    vestal_process::failpoint::reach(NAMES, name);
}
