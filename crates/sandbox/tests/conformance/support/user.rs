//! Cases that are run by an ordinary user.

use std::future::Future;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::world::variable;

/// Where the user's copy of the worker is told.
const WORKER: &str = "VESTAL_TEST_WORKER";

/// Runs a case as the user that the rootless engine belongs to. Root does so by
/// running this very test once more as that user.
pub(crate) fn as_rootless_user(test: &str, case: impl Future<Output = ()>) {
    let user: u32 = variable("VESTAL_TEST_ROOTLESS_USER").parse().unwrap();
    if rustix::process::getuid().as_raw() == user {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(case);
    }
    let dir = PathBuf::from(variable("VESTAL_TEST_ROOTLESS_DIR"));
    let worker = reachable(Path::new(env!("CARGO_BIN_EXE_sandbox-worker")), &dir);
    // By this name the program is found whatever directories it lies below.
    let status = Command::new("/proc/self/exe")
        .args([test, "--exact", "--nocapture"])
        .env("HOME", dir.join("home"))
        .env("TMPDIR", dir.join("tmp"))
        .env("XDG_RUNTIME_DIR", dir.join("run"))
        .env(WORKER, worker)
        .current_dir(&dir)
        .uid(user)
        .gid(user)
        .status()
        .unwrap();
    assert!(status.success(), "the case failed as user {user}");
}

/// Returns the program that plays another process.
pub(super) fn worker() -> PathBuf {
    let told = vestal_config::Environment::capture().get(WORKER).map(PathBuf::from);
    told.unwrap_or_else(|| env!("CARGO_BIN_EXE_sandbox-worker").into())
}

/// Returns a path of the program that the user can reach. It goes with the
/// engine's directory.
fn reachable(program: &Path, dir: &Path) -> PathBuf {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(program).unwrap();
    let there = dir.join(format!("worker-{}-{}", metadata.ino(), metadata.mtime()));
    if !there.exists() {
        // Another test may do the same at the same moment.
        let own = dir.join(format!("worker-{}.tmp", std::process::id()));
        if std::fs::hard_link(program, &own).is_err() {
            std::fs::copy(program, &own).unwrap();
        }
        std::fs::rename(&own, &there).unwrap();
    }
    there
}
