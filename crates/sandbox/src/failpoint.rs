//! Places where a test may kill this process.
//!
//! Compiled in only with the feature `failpoints`; otherwise nothing is left of
//! them. The variable `VESTAL_FAILPOINT` names one; reaching it is SIGKILL, as
//! a crash would be.

/// Every failpoint of the engine, in the order of a sandbox's life.
#[cfg(feature = "failpoints")]
pub const NAMES: &[&str] = &[
    "create.locked",
    "create.intent-written",
    "docker.snapshot.named",
    "docker.snapshot.committed",
    "docker.snapshot.made",
    "docker.fork.copied",
    "docker.create.prepared",
    "docker.create.created",
    "docker.create.filled",
    "docker.create.started",
    "native.create.prepared",
    "native.create.filled",
    "native.create.limited",
    "native.create.under-way",
    "native.create.ready",
    "apptainer.create.prepared",
    "apptainer.create.filled",
    "apptainer.create.limited",
    "apptainer.create.under-way",
    "apptainer.create.ready",
    "ssh.create.sent",
    "kubernetes.create.claimed",
    "kubernetes.create.cleared",
    "kubernetes.create.made",
    "kubernetes.create.runs",
    "create.guest-started",
    "create.record-written",
    "create.intent-cleared",
    "start.intent-written",
    "docker.start.prepared",
    "docker.start.started",
    "native.start.prepared",
    "native.start.limited",
    "native.start.under-way",
    "native.start.ready",
    "apptainer.start.prepared",
    "apptainer.start.limited",
    "apptainer.start.under-way",
    "apptainer.start.ready",
    "ssh.start.sent",
    "kubernetes.start.claimed",
    "kubernetes.start.cleared",
    "kubernetes.start.made",
    "kubernetes.start.runs",
    "start.guest-started",
    "start.record-written",
    "start.intent-cleared",
    "stop.intent-written",
    "stop.guest-asked",
    "stop.ended",
    "stop.intent-cleared",
    "remove.intent-written",
    "remove.ended",
    "remove.instance-removed",
    "remove.record-written",
    "remove.snapshots-removed",
    "remove.files-removed",
    "forget.noted",
    "forget.moved-aside",
    "snapshot.intent-written",
    "snapshot.files-copied",
    "snapshot.saved",
    "snapshot.record-written",
    "remove-snapshot.intent-written",
    "remove-snapshot.forgotten",
    "remove-snapshot.discarded",
    "fork.intent-written",
    "fork.files-copied",
    "fork.instance-made",
    "fork.record-written",
    "restore.intent-written",
    "restore.files-copied",
    "restore.files-switched",
    "restore.instance-made",
    "restore.settled",
    "rebuild.intent-written",
    "rebuild.files-switched",
    "rebuild.instance-made",
    "rebuild.settled",
    "relocate.files-carried",
    "sync.planned",
    "sync.there-changed",
    "sync.here-changed",
    "sync.agreed",
    "sync.agreement-written",
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
