//! Drives real supervisors.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::must_use_candidate,
    clippy::new_without_default,
    reason = "helpers of tests, of which each test program uses its own part"
)]

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, WaitOptions};
use tempfile::TempDir;
use vestal_guest::process::{
    ChildEnds, FailedStep, Launch, LaunchCommand, SupervisorProcess, SupervisorReport, WaitStatus,
};
use vestal_guest::session::SavedSession;
use vestal_testkit::TEST_TIMEOUT;
use vestal_wire::EnvVar;

/// A supervisor that is reaped at the end of its test.
pub struct Supervised {
    supervisor: Option<SupervisorProcess>,
    pid: u32,
}

impl Supervised {
    pub fn new() -> Self {
        Self::with_arguments(&[])
    }

    pub fn with_arguments(arguments: &[&Path]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vestal-guest"));
        command.arg("supervise").args(arguments);
        let supervisor = SupervisorProcess::spawn_by(command).unwrap();
        Self { pid: supervisor.pid(), supervisor: Some(supervisor) }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn get(&mut self) -> &mut SupervisorProcess {
        self.supervisor.as_mut().unwrap()
    }

    /// Closes the control socket and waits for the supervisor's end.
    pub fn close(&mut self) {
        if self.supervisor.take().is_some() {
            let pid = Pid::from_raw(i32::try_from(self.pid).unwrap());
            rustix::process::waitpid(pid, WaitOptions::empty()).unwrap();
        }
    }

    /// Waits for the next report.
    pub fn report(&mut self) -> io::Result<SupervisorReport> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            if let Some(report) = self.get().receive()? {
                return Ok(report);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no report within {TEST_TIMEOUT:?}");
            let timeout = left.try_into().unwrap();
            let control = self.get().control().try_clone_to_owned().unwrap();
            let mut files = [PollFd::new(&control, PollFlags::IN)];
            rustix::event::poll(&mut files, Some(&timeout)).unwrap();
        }
    }

    /// Runs a launch until no process of it is left.
    pub fn run(&mut self, launch: &Launch) -> Ran {
        self.run_with(launch, b"")
    }

    pub fn run_with(&mut self, launch: &Launch, input: &[u8]) -> Ran {
        let streams = Streams::new(input);
        self.get().launch(launch, streams.ends()).unwrap();
        self.finish(streams)
    }

    pub fn finish(&mut self, streams: Streams) -> Ran {
        let mut ran = Ran::default();
        loop {
            match self.report().unwrap() {
                SupervisorReport::Started { pid, pid_start } => {
                    ran.started = Some((pid, pid_start));
                }
                SupervisorReport::Failed { step, errno } => ran.failed = Some((step, errno)),
                SupervisorReport::Ended { status, state } => {
                    ran.status = Some(status);
                    ran.state = state.map(|file| read_all(file.into()));
                }
                SupervisorReport::Left { processes } => ran.left.push(processes),
                SupervisorReport::Empty => break,
            }
        }
        ran.stdout = read_all(streams.stdout);
        ran.stderr = read_all(streams.stderr);
        ran
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.close();
    }
}

/// Files for the standard streams of a launch.
pub struct Streams {
    pub stdin: File,
    pub stdout: File,
    pub stderr: File,
}

impl Streams {
    pub fn new(input: &[u8]) -> Self {
        let mut stdin = memory();
        stdin.write_all(input).unwrap();
        stdin.rewind().unwrap();
        Self { stdin, stdout: memory(), stderr: memory() }
    }

    pub fn ends(&self) -> ChildEnds {
        let clone = |file: &File| file.as_fd().try_clone_to_owned().unwrap();
        ChildEnds {
            stdin: clone(&self.stdin),
            stdout: clone(&self.stdout),
            stderr: clone(&self.stderr),
        }
    }
}

fn memory() -> File {
    let file: OwnedFd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    file.into()
}

fn read_all(mut file: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// What became of a launch.
#[derive(Default)]
pub struct Ran {
    pub started: Option<(u32, u64)>,
    pub failed: Option<(FailedStep, i32)>,
    pub status: Option<WaitStatus>,
    pub state: Option<Vec<u8>>,
    pub left: Vec<u32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl std::fmt::Debug for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ran")
            .field("failed", &self.failed)
            .field("status", &self.status)
            .field("saved", &self.state.is_some())
            .field("left", &self.left)
            .field("stdout", &self.out())
            .field("stderr", &self.err())
            .finish_non_exhaustive()
    }
}

impl Ran {
    pub fn code(&self) -> u8 {
        match self.status {
            Some(WaitStatus::Exited(code)) => code,
            _ => panic!("did not exit: {self:?}"),
        }
    }

    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

pub fn var(name: &str, value: impl AsRef<[u8]>) -> EnvVar {
    EnvVar { name: name.as_bytes().to_vec().into(), value: value.as_ref().to_vec().into() }
}

pub fn base_env() -> Vec<EnvVar> {
    vec![
        var("PATH", "/usr/local/bin:/usr/bin:/bin"),
        var("HOME", "/nowhere"),
        var("LANG", "C.UTF-8"),
        var("BASE", "from the caller"),
    ]
}

pub fn shell(text: impl AsRef<[u8]>, cwd: &Path) -> Launch {
    use std::os::unix::ffi::OsStrExt as _;
    Launch {
        command: LaunchCommand::Shell(text.as_ref().to_vec()),
        session: None,
        save: false,
        env: base_env(),
        job_env: vec![],
        cwd: cwd.as_os_str().as_bytes().to_vec(),
        pty: false,
    }
}

/// A session: each command starts from what the last one left.
pub struct Session {
    pub supervised: Supervised,
    pub saved: SavedSession,
    pub env: Vec<EnvVar>,
    pub job_env: Vec<EnvVar>,
    pub directory: TempDir,
}

impl Session {
    pub fn new() -> Self {
        Self {
            supervised: Supervised::new(),
            saved: SavedSession::default(),
            env: base_env(),
            job_env: vec![],
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// A session where there is another shell but no bash.
    pub fn without_bash(shell: &Path) -> Self {
        Self { supervised: Supervised::with_arguments(&[shell]), ..Self::new() }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    pub fn launch(&self, command: LaunchCommand) -> Launch {
        let cwd = if self.saved.cwd.is_empty() {
            self.path().into_os_string().into_encoded_bytes()
        } else {
            self.saved.cwd.clone()
        };
        Launch {
            command,
            session: Some(self.saved.clone()),
            save: true,
            env: self.env.clone(),
            job_env: self.job_env.clone(),
            cwd,
            pty: false,
        }
    }

    /// Runs text and keeps the state it leaves, if it leaves any.
    pub fn sh(&mut self, text: impl AsRef<[u8]>) -> Ran {
        let launch = self.launch(LaunchCommand::Shell(text.as_ref().to_vec()));
        self.run(&launch)
    }

    pub fn argv(&mut self, arguments: &[&str]) -> Ran {
        let arguments = arguments.iter().map(|a| a.as_bytes().to_vec().into()).collect();
        let launch = self.launch(LaunchCommand::Argv(arguments));
        self.run(&launch)
    }

    pub fn run(&mut self, launch: &Launch) -> Ran {
        let ran = self.supervised.run(launch);
        if let Some(dump) = &ran.state {
            self.saved = SavedSession::from_dump(dump, &launch.env, &launch.job_env).unwrap();
        }
        ran
    }

    /// Runs text that must save, exit 0 and print nothing on standard error.
    pub fn ok(&mut self, text: impl AsRef<[u8]>) -> String {
        let ran = self.sh(text);
        assert_eq!((ran.code(), ran.err().as_str(), ran.state.is_some()), (0, "", true), "{ran:?}");
        ran.out()
    }

    /// Runs text that must save and end with a code.
    pub fn saves(&mut self, text: impl AsRef<[u8]>, code: u8) -> Ran {
        let ran = self.sh(text);
        assert_eq!((ran.code(), ran.state.is_some()), (code, true), "{}", ran.err());
        ran
    }
}

/// Runs text in a bash of its own: its output, messages and code.
pub fn plain_bash(text: &str, cwd: &Path) -> (String, String, i32) {
    let output = Command::new("bash")
        .args(["-c", text])
        .env_clear()
        .envs(base_env().iter().map(|var| {
            use std::os::unix::ffi::OsStringExt as _;
            let own = |bytes: &[u8]| std::ffi::OsString::from_vec(bytes.to_vec());
            (own(&var.name), own(&var.value))
        }))
        .env("_", "/usr/bin/bash")
        .env("PWD", cwd)
        .current_dir(cwd)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap_or(-1))
}
