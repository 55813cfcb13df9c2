//! Places where a test may kill this process.
//!
//! Compiled in only with the feature `failpoints`; otherwise nothing is left of them. The variable
//! `VESTAL_FAILPOINT` names one; reaching it is SIGKILL, as a crash would be.

/// Dies here if the test asks for it. `names` are all failpoints of the calling crate: one that is not
/// listed would be walked by no test.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "a test's own switch is not a setting")]
pub fn reach(names: &[&str], name: &str) {
    debug_assert!(names.contains(&name), "{name} is not listed");
    if std::env::var_os("VESTAL_FAILPOINT").is_some_and(|wanted| wanted == name) {
        // SIGKILL of itself cannot be caught and cannot fail.
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .ok();
    }
}

/// Does nothing in ordinary builds.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn reach(_names: &[&str], _name: &str) {}
