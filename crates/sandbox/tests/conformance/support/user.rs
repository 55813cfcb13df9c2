//! Cases that are run by an ordinary user.

use std::future::Future;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use vestal_testkit::engines::given;

/// The variable with the path of the user's copy of the worker.
const WORKER: &str = "VESTAL_TEST_WORKER";

/// An ordinary user that was made for tests, with a directory of its own.
#[derive(Debug)]
pub(crate) struct User {
    id: u32,
    dir: PathBuf,
    /// What runs a command as that user, where the machine does not know it.
    program: Option<[PathBuf; 2]>,
}

impl User {
    /// Returns the user that the rootless engine belongs to.
    pub(crate) fn of_rootless() -> Self {
        let id = given("VESTAL_TEST_ROOTLESS_USER").parse().unwrap();
        let dir = given("VESTAL_TEST_ROOTLESS_DIR").into();
        Self { id, dir, program: None }
    }

    /// Returns the user that has nothing but a home and subordinate ids.
    pub(crate) fn of_native() -> Self {
        let whole = PathBuf::from(given("VESTAL_TEST_USER_DIR"));
        let dir = whole.join("own");
        let id = std::fs::metadata(&dir).unwrap().uid();
        let program = Some([given("VESTAL_TEST_USER").into(), whole]);
        Self { id, dir, program }
    }

    /// Returns the same user in the root that has Apptainer.
    pub(crate) fn of_apptainer() -> Self {
        let whole = PathBuf::from(given("VESTAL_TEST_USER_DIR"));
        let dir = whole.join("own");
        let id = std::fs::metadata(&dir).unwrap().uid();
        let program = Some([given("VESTAL_TEST_APPTAINER_USER").into(), whole]);
        Self { id, dir, program }
    }

    /// Runs a case as the user, telling it these variables. Root does so by
    /// running this very test once more as that user.
    pub(crate) fn run(
        &self,
        test: &str,
        variables: &[(&str, &str)],
        case: impl Future<Output = ()>,
    ) {
        if rustix::process::getuid().as_raw() == self.id {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            return runtime.unwrap().block_on(case);
        }
        let worker = self.reachable(Path::new(env!("CARGO_BIN_EXE_sandbox-worker")));
        let mut command = self.command();
        let status = command
            .args([test, "--exact", "--nocapture"])
            .env("HOME", self.dir.join("home"))
            .env("TMPDIR", self.dir.join("tmp"))
            .env("XDG_RUNTIME_DIR", self.dir.join("run"))
            .env(WORKER, worker)
            .envs(variables.iter().copied())
            .current_dir(&self.dir)
            .status()
            .unwrap();
        assert!(status.success(), "the case failed as user {}", self.id);
    }

    /// Returns the command that runs this very program as the user.
    fn command(&self) -> Command {
        match &self.program {
            Some([program, dir]) => {
                let mut command = Command::new(program);
                let this = std::fs::read_link("/proc/self/exe").unwrap();
                command.arg("run").arg(dir).arg(self.reachable(&this));
                command
            }
            None => {
                // By this name it is found whatever directories it lies below.
                let mut command = Command::new("/proc/self/exe");
                command.uid(self.id).gid(self.id);
                command
            }
        }
    }

    /// Returns a path of a program that the user can reach. It goes with the
    /// user's directory.
    fn reachable(&self, program: &Path) -> PathBuf {
        let metadata = std::fs::metadata(program).unwrap();
        let there = self.dir.join(format!("program-{}-{}", metadata.ino(), metadata.mtime()));
        if !there.exists() {
            // Another test may do the same at the same moment.
            let name = format!("program-{}-{}.tmp", metadata.ino(), std::process::id());
            let own = self.dir.join(name);
            if std::fs::hard_link(program, &own).is_err() {
                std::fs::copy(program, &own).unwrap();
            }
            std::fs::rename(&own, &there).unwrap();
        }
        there
    }
}

/// Returns the program that plays another process.
pub(super) fn worker() -> PathBuf {
    let reported = vestal_config::Environment::capture().get(WORKER).map(PathBuf::from);
    reported.unwrap_or_else(|| env!("CARGO_BIN_EXE_sandbox-worker").into())
}
