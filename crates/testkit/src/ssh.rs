//! Another machine with an ssh server, which `scripts/lib/ssh-host` makes: asked and disturbed
//! without the code under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::engines::given;
use crate::processes::{is_below, living};

/// The variable that names the program which makes such machines.
pub const PROGRAM: &str = "VESTAL_TEST_SSH_HOST";

/// The name of every such machine, in the `ssh_config` that it has.
pub const HOST: &str = "box";

/// A machine. It is ended when this is dropped.
#[derive(Debug)]
pub struct SshMachine {
    dir: PathBuf,
    /// The home of who logs in, as this machine sees it.
    home: PathBuf,
    /// The same, as the machine itself sees it.
    home_there: PathBuf,
}

impl SshMachine {
    /// Starts a machine in a directory that is not there yet, with these options of
    /// `ssh-host start`.
    pub fn start(dir: PathBuf, options: &[&str]) -> Self {
        let is_root = options.windows(2).any(|pair| pair == ["--user", "root"]);
        let home_there = PathBuf::from(if is_root { "/root" } else { "/home/tester" });
        let home = dir.join("root").join(home_there.strip_prefix("/").unwrap());
        let host = Self { dir, home, home_there };
        let until = std::process::id().to_string();
        host.control("start", &[options, &["--until", &until]].concat());
        host
    }

    /// Returns the `ssh_config` that knows the machine.
    pub fn config(&self) -> PathBuf {
        self.dir.join("config")
    }

    /// Returns the directory of the home, as this machine sees it.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the same, as the machine itself sees it.
    pub fn home_there(&self) -> &Path {
        &self.home_there
    }

    /// Does something to the machine, by a verb of `ssh-host`.
    pub fn control(&self, verb: &str, options: &[&str]) {
        let printed = self.command(verb, options).output().unwrap();
        assert!(printed.status.success(), "{verb}: {}", String::from_utf8_lossy(&printed.stderr));
    }

    /// Runs a command there as root and returns what it prints.
    pub fn run(&self, command: &[&str]) -> String {
        let printed = self.command("run", command).output().unwrap();
        assert!(
            printed.status.success(),
            "{command:?}: {}",
            String::from_utf8_lossy(&printed.stderr)
        );
        String::from_utf8(printed.stdout).unwrap()
    }

    fn command(&self, verb: &str, options: &[&str]) -> Command {
        let mut command = Command::new(given(PROGRAM));
        command.arg(verb).arg(&self.dir).args(options).stdin(Stdio::null());
        command
    }

    /// Returns the living processes there, by their numbers here: those that no connection is
    /// responsible for, the machine's own apart.
    pub fn processes(&self) -> Vec<u32> {
        let holder = std::fs::read_to_string(self.dir.join("holder")).unwrap_or_default();
        let Some(first) = holder.split(' ').next().and_then(|pid| pid.trim().parse().ok()) else {
            return Vec::new();
        };
        // Sandboxes there may have numbers of their own; the first process is above all of them.
        let all = living(|pid| is_below(pid, &[first]));
        let is_server = |pid: &u32| {
            let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sshd"))
        };
        let servers: Vec<u32> = all.iter().copied().filter(is_server).collect();
        let is_of_nobody = |pid: &u32| !servers.contains(pid) && !is_below(*pid, &servers);
        all.into_iter().filter(is_of_nobody).collect()
    }

    /// Returns the process that has this number there, or where it is.
    pub fn process(&self, number: u32) -> Option<u32> {
        self.processes().into_iter().find(|pid| numbers(*pid).last() == Some(&number))
    }

    /// Returns the process that the machine itself knows by this number.
    pub fn process_of_machine(&self, number: u32) -> Option<u32> {
        let holder = std::fs::read_to_string(self.dir.join("holder")).unwrap_or_default();
        let first: u32 = holder.split(' ').next()?.parse().ok()?;
        let level = numbers(first).len().checked_sub(1)?;
        self.processes().into_iter().find(|pid| numbers(*pid).get(level) == Some(&number))
    }
}

/// Returns the numbers that a process has, that of this machine first.
fn numbers(pid: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

impl Drop for SshMachine {
    fn drop(&mut self) {
        assert!(self.dir.exists() || std::thread::panicking(), "it must end before its directory");
        let stopped = self.command("stop", &[]).output();
        if !std::thread::panicking() {
            let stopped = stopped.unwrap();
            assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
        }
    }
}
