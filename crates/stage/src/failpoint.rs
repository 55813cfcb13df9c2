//! Steps at which a test can kill the stage.
//!
//! With the feature `failpoints`, the process that reaches the step named by the
//! environment variable `VESTAL_STAGE_FAILPOINT` exits there as if it had been
//! killed. Without the feature nothing of this is compiled.

/// Every step of `enclose` at which a test can kill a process of the stage: those
/// of the process that was started, then those of the first process.
pub const NAMES: [&str; 17] = [
    "stage.enclose.after-plan",
    "stage.enclose.after-cgroups",
    "stage.enclose.after-clone",
    "stage.enclose.after-maps",
    "stage.enclose.after-record",
    "stage.enclose.after-go",
    "stage.first.before-go",
    "stage.first.after-go",
    "stage.first.after-root",
    "stage.first.after-places",
    "stage.first.after-pivot",
    "stage.first.after-users",
    "stage.first.after-capabilities",
    "stage.first.after-landlock",
    "stage.first.after-seccomp",
    "stage.first.before-exec",
    "stage.enclose.before-leaving",
];

/// The same of `launch`.
pub const LAUNCH_NAMES: [&str; 4] = [
    "stage.launch.after-plan",
    "stage.launch.after-clone",
    "stage.launch.after-go",
    "stage.launch.after-record",
];

/// Kills the process here if a test asked for it.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "it is for tests and no setting")]
pub(crate) fn reach(name: &'static str) {
    let known = NAMES.contains(&name) || LAUNCH_NAMES.contains(&name);
    debug_assert!(known, "{name} is not in the list of failpoints");
    if std::env::var_os("VESTAL_STAGE_FAILPOINT").is_some_and(|chosen| chosen == name) {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .ok();
        // Process 1 cannot be killed from within its own namespace.
        crate::sys::exit_now(137);
    }
}

/// Marks a step at which a test can kill the stage.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        $crate::failpoint::reach($name);
    };
}
pub(crate) use failpoint;
