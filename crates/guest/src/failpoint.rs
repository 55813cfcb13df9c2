//! Steps at which a test can kill the guest.
//!
//! With the feature `failpoints`, the guest kills itself with SIGKILL at the step
//! named by the environment variable `VESTAL_GUEST_FAILPOINT` or, in a container,
//! by a file beside its program. Without the feature nothing of this is compiled.

/// Every step at which a test can kill the guest.
pub const NAMES: [&str; 19] = [
    "guest.start.after-lock",
    "guest.start.after-replay",
    "guest.start.after-identity",
    "guest.start.after-bind",
    "guest.start.after-ready",
    "guest.compact.before-rename",
    "guest.job.before-journal",
    "guest.job.after-journal",
    "guest.job.after-launch",
    "guest.job.after-started",
    "guest.job.after-exit",
    "guest.job.after-end-record",
    "guest.job.before-save",
    "guest.job.after-save",
    "guest.job.after-reply",
    "guest.shutdown.begin",
    "guest.shutdown.after-kill",
    "guest.shutdown.after-unlink",
    "guest.shutdown.before-exit",
];

/// The file in which a guest in a container finds the name. The environment of a
/// container is the same at every start, but a test means one start.
#[cfg(feature = "failpoints")]
const FILE: &str = "/.vestal/boot/failpoint";

/// Kills the guest here if a test asked for it.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "it is for tests and no setting")]
pub(crate) fn reach(name: &'static str) {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    debug_assert!(NAMES.contains(&name), "{name} is not in the list of failpoints");
    let chosen = CHOSEN.get_or_init(|| {
        let chosen = std::env::var("VESTAL_GUEST_FAILPOINT").ok();
        chosen.or_else(|| std::fs::read_to_string(FILE).ok())
    });
    if chosen.as_deref() == Some(name) {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .ok();
        // Process 1 cannot be killed from within its own namespace.
        std::process::abort();
    }
}

/// Marks a step at which a test can kill the guest.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        $crate::failpoint::reach($name);
    };
}
pub(crate) use failpoint;
