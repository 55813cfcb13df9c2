//! The program that a container was started for, run beside the slots.
//!
//! It has the terminal and the streams of the supervisor. The container lives as long as it does,
//! and ends with its exit code.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpgrp, getppid, kill_process_group, pidfd_open,
    pidfd_send_signal, set_parent_process_death_signal, waitpid,
};
use rustix::stdio::stdin;
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::child::{NOT_INHERITED, children};

/// How long it may take to end when the supervisor ends; `docker stop` waits as long before it
/// kills everything.
const STOP_WITHIN: Duration = Duration::from_secs(8);

/// What is run beside the slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MainProgram {
    /// The program, looked up on the `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The command that becomes it: given the supervisor's pid, `--`, the program and its arguments, it
    /// calls [`become_main_program`].
    pub launcher: Vec<OsString>,
}

/// Turns this process, which the supervisor with this pid has started, into the program beside the slots.
/// The kernel ends that with its supervisor, also when the supervisor is killed. Returns only if there is
/// nothing to turn into.
pub fn become_main_program(
    supervisor: u32,
    program: &OsStr,
    arguments: impl IntoIterator<Item = OsString>,
) -> io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // It may have been killed before the kernel knew what to do then.
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if parent != Some(supervisor) {
        return io::Error::other("its supervisor has ended");
    }
    Command::new(program).args(arguments).exec()
}

/// The running program.
#[derive(Debug)]
pub(crate) struct MainChild {
    child: Child,
    pidfd: AsyncFd<OwnedFd>,
}

impl MainChild {
    /// Starts the program in a process group of its own, which gets the terminal if the supervisor
    /// has it: Ctrl-C is for the program.
    pub(crate) fn start(program: &MainProgram) -> io::Result<Self> {
        let MainProgram { program, arguments, launcher } = program;
        let mut words = launcher.iter();
        let launcher = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(launcher);
        command.args(words).arg(std::process::id().to_string()).arg("--").arg(program);
        command.args(arguments).process_group(0);
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        let mut child = {
            // Held while it is started, so that it is not taken for an orphan.
            let mut children = children();
            let child = command.spawn()?;
            children.insert(child.id());
            child
        };
        match Self::watch(&child) {
            Ok(pidfd) => {
                give_terminal(Pid::from_child(&child));
                Ok(Self { child, pidfd })
            }
            Err(error) => {
                // Nobody could wait for it.
                if let Err(error) = child.kill().and_then(|()| child.wait().map(|_| ())) {
                    tracing::warn!(%error, "cannot end the program");
                }
                children().remove(&child.id());
                Err(error)
            }
        }
    }

    fn watch(child: &Child) -> io::Result<AsyncFd<OwnedFd>> {
        let pid = Pid::from_child(child);
        let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        #[expect(deprecated, reason = "an owned descriptor stays the same one, as it has to")]
        AsyncFd::with_interest(pidfd, tokio::io::Interest::READABLE)
    }

    /// Waits until the program has ended. Its descendants in its group are killed with it.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.pidfd.readable().await?.retain_ready();
        // It is a zombie until it is reaped, so the number still names its group.
        kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
        let status = self.child.wait()?;
        children().remove(&self.child.id());
        Ok(status)
    }

    /// Sends the program a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        for signal in [signal, Signal::CONT] {
            // It may have ended.
            pidfd_send_signal(&self.pidfd, signal).ok();
        }
    }

    /// Waits until the program has ended after a signal; kills it if that takes too long.
    pub(crate) async fn stop(&mut self) -> io::Result<ExitStatus> {
        if let Ok(ended) = timeout(STOP_WITHIN, self.ended()).await {
            return ended;
        }
        self.signal(Signal::KILL);
        self.ended().await
    }
}

/// Hands the terminal of the supervisor to a process group. A program that has read from it before
/// was stopped by that, and goes on.
fn give_terminal(group: Pid) {
    if tcgetpgrp(stdin()).is_ok_and(|owner| owner == getpgrp())
        && let Err(error) = tcsetpgrp(stdin(), group)
    {
        tracing::warn!(%error, "cannot hand over the terminal");
    }
    kill_process_group(group, Signal::CONT).ok();
}

/// Reaps dead children of this process that it did not start.
pub(crate) fn reap() -> io::Result<usize> {
    // Held to the end: a child that is started meanwhile would look like an orphan.
    let kept = children();
    let own = std::process::id();
    let mut reaped = 0;
    for entry in std::fs::read_dir("/proc")? {
        // What vanished meanwhile was reaped.
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if kept.contains(&pid) || !is_dead_child_of(pid, own) {
            continue;
        }
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { continue };
        if let Ok(Some(_)) = waitpid(Some(pid), WaitOptions::NOHANG) {
            reaped += 1;
        }
    }
    Ok(reaped)
}

fn is_dead_child_of(pid: u32, parent: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The command name is in parentheses and may contain anything.
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let mut fields = fields.split(' ');
    let is_dead = fields.next() == Some("Z");
    is_dead && fields.next().and_then(|field| field.parse().ok()) == Some(parent)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_dead_are_reaped_but_for_those_that_are_kept() {
        let mut children = [(); 2].map(|()| Command::new("true").spawn().unwrap());
        let [kept, orphan] = children.each_ref().map(std::process::Child::id);
        let own = std::process::id();
        while ![kept, orphan].iter().all(|pid| is_dead_child_of(*pid, own)) {
            std::thread::yield_now();
        }
        crate::child::children().insert(kept);
        assert_eq!(reap().unwrap(), 1);
        assert!(!is_dead_child_of(orphan, own) && is_dead_child_of(kept, own));
        children[0].wait().unwrap();
    }
}
