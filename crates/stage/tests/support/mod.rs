//! Real sandboxes that the stage builds around a shell.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper may panic as a test may")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use minicbor::bytes::ByteVec;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use vestal_testkit::namespaces::{ORDINARY_USER, is_root};
use vestal_testkit::processes::naming;
use vestal_testkit::{is_alive, wait_until};
use vestal_wire::{
    Bind, Enclosure, IdRange, Mapping, Network, OverlayDirs, Purpose, Root, SandboxMount,
    UserMapping,
};

/// The host id of root in sandboxes that root builds: outside of all ranges that
/// others assign.
pub(crate) const SHIFTED: u32 = 0x7000_0000;

/// A variable in the environment that marks processes of the stage.
const MARK: &str = "VESTAL_TEST_SITE";

/// Who builds a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Root,
    Ordinary,
}

impl By {
    /// Returns all users that this process can switch to.
    pub(crate) fn all() -> Vec<Self> {
        if is_root() { vec![Self::Root, Self::Ordinary] } else { vec![Self::Ordinary] }
    }

    fn uid(self) -> Option<u32> {
        (self == Self::Ordinary && is_root()).then_some(ORDINARY_USER)
    }

    pub(crate) fn users(self) -> UserMapping {
        let (outside, count, mapping) = match self {
            Self::Root => (SHIFTED, 65_536, Mapping::Privileged),
            Self::Ordinary => {
                let own = rustix::process::geteuid().as_raw();
                (self.uid().unwrap_or(own), 1, Mapping::Own)
            }
        };
        let gid = match self {
            Self::Root => outside,
            Self::Ordinary => {
                let own = rustix::process::getegid().as_raw();
                self.uid().unwrap_or(own)
            }
        };
        UserMapping {
            uids: vec![IdRange { inside: 0, outside, count }],
            gids: vec![IdRange { inside: 0, outside: gid, count }],
            mapping,
        }
    }
}

/// Directories of a sandbox on the host.
#[derive(Debug)]
pub(crate) struct TestSandbox {
    pub(crate) by: By,
    pub(crate) dir: tempfile::TempDir,
}

pub(crate) fn bytes(path: impl AsRef<Path>) -> ByteVec {
    path.as_ref().as_os_str().as_bytes().to_vec().into()
}

impl TestSandbox {
    pub(crate) fn new(by: By) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let sandbox = Self { by, dir };
        // What belongs to the sandbox's root, and what is bound as it is.
        for name in ["root", "upper", "work"] {
            sandbox.make(name, sandbox.owner());
        }
        for name in ["workspace", "io"] {
            sandbox.make(name, by.uid().or((by == By::Root).then_some(0)));
        }
        if let Some(uid) = by.uid() {
            chown(sandbox.dir.path(), Some(uid), Some(uid)).unwrap();
        }
        sandbox
    }

    /// The user of the host that root of the sandbox is.
    pub(crate) fn owner(&self) -> Option<u32> {
        match self.by {
            By::Root => Some(SHIFTED),
            By::Ordinary => self.by.uid(),
        }
    }

    pub(crate) fn make(&self, name: &str, owner: Option<u32>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        if let Some(owner) = owner {
            chown(&path, Some(owner), Some(owner)).unwrap();
        }
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn record(&self) -> PathBuf {
        self.path("init.json")
    }

    /// A plan of a sandbox that shows the host's programs and has a workspace.
    pub(crate) fn plan(&self, script: &str) -> Enclosure {
        let root = self.by == By::Root;
        let mut places = vec![
            SandboxMount::Proc { target: bytes("/proc") },
            SandboxMount::Dev { target: bytes("/dev"), shared_memory: 1 << 20 },
            SandboxMount::Tmpfs { target: bytes("/tmp"), size: 1 << 20, mode: 0o1777, exec: true },
            self.bind("workspace", "/workspace", root),
            self.bind("io", "/.vestal/io", root),
        ];
        if root {
            places.push(SandboxMount::Overlay {
                target: bytes("/usr"),
                layers: OverlayDirs {
                    lower: bytes("/usr"),
                    shifted: true,
                    upper: bytes(self.path("upper")),
                    work: bytes(self.path("work")),
                    hidden: Vec::new(),
                    public_only: false,
                },
            });
        } else {
            places.push(SandboxMount::Bind(Bind {
                source: bytes("/usr"),
                target: bytes("/usr"),
                read_only: true,
                recursive: true,
                shifted: false,
                identity: None,
                hidden: Vec::new(),
                public_only: false,
            }));
        }
        for name in ["bin", "sbin", "lib", "lib64"] {
            let Ok(text) = fs::read_link(Path::new("/").join(name)) else { continue };
            places.push(SandboxMount::Symlink {
                target: bytes(Path::new("/").join(name)),
                text: bytes(text),
            });
        }
        Enclosure {
            user_limits: None,
            users: self.by.users(),
            network: Network::Host,
            hostname: "sandbox".into(),
            root: Root::Directory(bytes(self.path("root"))),
            mounts: places,
            cgroups: vec![],
            capabilities: 0,
            filters: vec![],
            max_processes: None,
            purpose: Purpose::Serve {
                arguments: ["/bin/sh", "-c", script].map(bytes).to_vec(),
                environment: vec![bytes("PATH=/usr/bin:/bin")],
                record: bytes(self.record()),
            },
        }
    }

    pub(crate) fn bind(&self, name: &str, target: &str, shifted: bool) -> SandboxMount {
        SandboxMount::Bind(Bind {
            source: bytes(self.path(name)),
            target: bytes(target),
            read_only: false,
            recursive: false,
            shifted,
            identity: None,
            hidden: Vec::new(),
            public_only: false,
        })
    }

    /// Starts the stage.
    pub(crate) fn start(&self, plan: &Enclosure) -> RunningStage {
        self.start_by(self.command(), &vestal_wire::encode(plan).unwrap())
    }

    /// Starts a stage that dies at a step.
    pub(crate) fn start_failing(&self, plan: &Enclosure, failpoint: &str) -> RunningStage {
        let mut command = self.command();
        command.env("VESTAL_STAGE_FAILPOINT", failpoint);
        self.start_by(command, &vestal_wire::encode(plan).unwrap())
    }

    /// The stage as the host starts it, as the right user.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vestal-stage"));
        command.env_clear().env(MARK, self.dir.path()).stdin(Stdio::piped());
        if let Some(uid) = self.by.uid() {
            command.uid(uid).gid(uid);
        }
        command
    }

    pub(crate) fn start_by(&self, mut command: Command, plan: &[u8]) -> RunningStage {
        let (read, write) = std::io::pipe().unwrap();
        let (hold, hold_end) = std::io::pipe().unwrap();
        command
            .args(["enclose", "--plan-fd", "0", "--ready-fd", "1", "--hold-fd", "2"])
            .stdout(write)
            .stderr(hold_end);
        let mut child = command.spawn().unwrap();
        drop(command);
        child.stdin.take().unwrap().write_all(plan).unwrap();
        RunningStage {
            child: Some(child),
            ready: read.into(),
            hold: hold.into(),
            record: self.record(),
        }
    }

    /// Runs a script as the first process and returns its output.
    pub(crate) fn run(&self, script: &str) -> String {
        self.start(&self.plan(script)).printed()
    }
}

/// A running stage and its sandbox.
#[derive(Debug)]
pub(crate) struct RunningStage {
    child: Option<Child>,
    ready: OwnedFd,
    pub(crate) hold: OwnedFd,
    record: PathBuf,
}

impl RunningStage {
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Returns everything that is written to the ready descriptor, until all of its
    /// holders have closed it.
    pub(crate) fn printed(self) -> String {
        self.output_and_code().0
    }

    /// Returns the same and the exit code of the stage.
    pub(crate) fn output_and_code(mut self) -> (String, Option<i32>) {
        let mut printed = String::new();
        fs::File::from(self.ready.try_clone().unwrap()).read_to_string(&mut printed).unwrap();
        let code = self.child.take().unwrap().wait().unwrap().code();
        (printed, code)
    }

    /// Returns the next line.
    pub(crate) fn line(&self) -> String {
        let mut file = fs::File::from(self.ready.try_clone().unwrap());
        let (mut line, mut byte) = (Vec::new(), [0]);
        while file.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    /// Returns the recorded first process.
    pub(crate) fn first(&self) -> u32 {
        let record = fs::read_to_string(&self.record).unwrap();
        record.split(['{', ':', ',']).nth(2).unwrap().parse().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.as_mut().unwrap().kill().unwrap();
    }
}

impl Drop for RunningStage {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Ends the first process of a sandbox and with it everything in it.
pub(crate) fn end(first: u32) {
    let pid = Pid::from_raw(first.cast_signed()).unwrap();
    if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) {
        pidfd_send_signal(&handle, Signal::KILL).ok();
        wait_until("the first process is dead", || !is_alive(first));
    }
}

/// Returns all processes of a sandbox and its stages: those in its mount namespace, and those
/// that were started with its path in their environment.
pub(crate) fn processes_of(sandbox: &TestSandbox) -> Vec<u32> {
    naming(sandbox.dir.path(), &["environ", "mountinfo"])
}

/// Fails if a stage left anything running. What it had mounted is gone with the
/// last process of its namespace.
pub(crate) fn assert_nothing_runs(sandbox: &TestSandbox, what: &str) {
    wait_until(&format!("{what}: no process is left"), || processes_of(sandbox).is_empty());
}
