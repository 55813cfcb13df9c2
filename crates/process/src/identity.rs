//! The identity of a process: pid, start time and boot id, and what `/proc` says of it.
//!
//! A pid alone names whatever process has that number now. With the start time and
//! the kernel's boot id it identifies one process.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// One process, past or present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The pid.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// The kernel's boot id.
    pub boot: String,
}

impl ProcessId {
    /// Returns the calling process.
    pub fn current() -> io::Result<Self> {
        let pid = std::process::id();
        let start = start_time(pid)
            .ok_or_else(|| io::Error::other("cannot read this process's start time in /proc"))?;
        Ok(Self { pid, start, boot: boot_id()? })
    }

    /// Returns the process that has this pid now, even as a zombie, or nothing.
    /// Only a parent that has not waited for it can be sure that it is its child.
    pub fn of_child(pid: u32) -> io::Result<Option<Self>> {
        let Some(stat) = Stat::of(pid) else { return Ok(None) };
        Ok(Some(Self { pid, start: stat.start, boot: boot_id()? }))
    }

    /// Returns whether the process runs.
    pub fn is_alive(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot) && start_time(self.pid) == Some(self.start)
    }

    /// Returns a handle to exactly this process, or nothing if it is gone.
    pub fn handle(&self) -> io::Result<Option<ProcessHandle>> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let fd = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The handle is bound to the process that had the pid when it was opened,
        // so the identity is checked only now.
        Ok(self.is_alive().then_some(ProcessHandle { fd }))
    }
}

/// A handle to one process, which cannot be reused for another.
#[derive(Debug)]
pub struct ProcessHandle {
    fd: rustix::fd::OwnedFd,
}

impl ProcessHandle {
    /// Sends SIGKILL. A process that is gone is not an error.
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.fd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the process has ended. Returns false if the time is up.
    pub async fn ended_within(&self, timeout: Duration) -> io::Result<bool> {
        let handle = Self { fd: self.fd.try_clone()? };
        wait_for_all(vec![handle], Instant::now() + timeout).await
    }
}

/// Waits until all processes have ended. Returns false if the time is up.
pub(crate) async fn wait_for_all(
    mut handles: Vec<ProcessHandle>,
    deadline: Instant,
) -> io::Result<bool> {
    let wait = move || {
        while !handles.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            // A pidfd is readable once its process has ended.
            let mut fds: Vec<_> =
                handles.iter().map(|handle| PollFd::new(&handle.fd, PollFlags::IN)).collect();
            match poll(&mut fds, Some(&left)) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let ended: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            let mut ended = ended.into_iter();
            handles.retain(|_| !ended.next().unwrap_or(false));
        }
        Ok(true)
    };
    tokio::task::spawn_blocking(wait).await.map_err(io::Error::other)?
}

/// Returns the kernel's boot id.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Returns a process's start time, or nothing if it is gone or a zombie.
pub fn start_time(pid: u32) -> Option<u64> {
    Stat::of(pid).filter(|stat| !stat.zombie).map(|stat| stat.start)
}

/// Returns whether the process that has this pid now is stopped, by a signal or a
/// tracer.
pub fn is_stopped(pid: u32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.stopped)
}

/// The fields of `/proc/<pid>/stat` that identify a process, its group and its
/// session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Whether it has ended and was not reaped yet.
    pub(crate) zombie: bool,
    /// Whether a signal or a tracer stopped it.
    pub(crate) stopped: bool,
    /// The process that made it, or took it over.
    pub(crate) parent: u32,
    /// Its process group.
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// Start time in clock ticks since boot.
    pub(crate) start: u64,
}

impl Stat {
    /// Returns the fields of the process that has this pid now, if any.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // The command name is in parentheses and may contain anything.
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = fields.next()?;
        let (zombie, stopped) = (matches!(state, "Z" | "X"), matches!(state, "T" | "t"));
        // The state was field 3 of the line; the parent is field 4, the group field 5,
        // the session field 6, and the start time field 22.
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        let start = fields.nth(15)?.parse().ok()?;
        Some(Self { zombie, stopped, parent, group, session, start })
    }
}

/// Returns the pids of all processes.
pub(crate) fn numbers() -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // An entry that vanished is a process that ended.
        let Ok(entry) = entry else { continue };
        numbers.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// How often the environment of a process is read again if it seems not to carry
/// the marks.
const TRIES: usize = 100;

/// Returns whether a process was started with all of these variables, written as
/// `NAME=value`.
///
/// While a process executes another program, it shows no variables or only some
/// of them for a moment. So missing marks only count if the environment is the
/// same twice; an empty one gets some time.
pub(crate) fn started_with(pid: u32, marks: &[OsString]) -> bool {
    if marks.is_empty() {
        return false;
    }
    let mut before = Vec::new();
    for _ in 0..TRIES {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
        let has = |mark: &OsString| {
            environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
        };
        if marks.iter().all(has) {
            return true;
        }
        if environment.is_empty() {
            if Stat::of(pid).is_none_or(|stat| stat.zombie) {
                return false;
            }
            std::thread::sleep(Duration::from_micros(500));
        } else if environment == before {
            return false;
        }
        before = environment;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_its_impostors_are_not() {
        let me = ProcessId::current().unwrap();
        assert!(me.is_alive());
        assert!(me.handle().unwrap().is_some());
        let other_start = ProcessId { start: me.start + 1, ..me.clone() };
        let other_boot = ProcessId { boot: "another".into(), ..me };
        for impostor in [other_start, other_boot] {
            assert!(!impostor.is_alive());
            assert!(impostor.handle().unwrap().is_none());
        }
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let fd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let mut poll = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut poll, None).unwrap();
        assert_eq!(start_time(pid), None);
        child.wait().unwrap();
    }
}

#[cfg(test)]
mod stat_tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_runs_other_programs_keeps_its_marks() {
        // It only executes another program in its place.
        let text = "exec sh -c \"$0\" \"$0\"";
        let mut child = Command::new("sh")
            .args(["-c", text, text])
            .env("TEST_MARK", "1")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let marks = [OsString::from("TEST_MARK=1")];
        let seen = (0..3000).filter(|_| started_with(child.id(), &marks)).count();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, 3000);
    }

    #[test]
    fn a_command_name_may_contain_anything() {
        let line = "7 (a) R 1 (b)) S 1 70 71 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 9 9";
        assert_eq!(
            Stat::parse(line),
            Some(Stat {
                zombie: false,
                stopped: false,
                parent: 1,
                group: 70,
                session: 71,
                start: 12345
            })
        );
    }
}
