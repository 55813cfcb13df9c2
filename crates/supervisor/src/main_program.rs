//! The program that a container was started for, run beside the slots.
//!
//! It has the terminal and the streams of the supervisor. The container lives as long as it does,
//! and ends with its exit code.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, getpgrp, kill_process_group, pidfd_open, pidfd_send_signal,
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
        let mut command = Command::new(&program.program);
        command.args(&program.arguments).process_group(0);
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
