//! What the two processes of the stage say to each other.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::failure::{Failure, Step, failed};
use crate::plan;
use crate::sys::process::end_now;

/// Said by the first process when it stands.
const STANDS: u8 = b'+';

/// Both ends of both pipes.
pub(super) fn pair() -> Result<(Outside, First), Failure> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(failed(Step::Namespaces));
    let (wait, go) = pipe()?;
    let (told, tell) = pipe()?;
    Ok((Outside { go, told }, First { wait, tell }))
}

/// The end of the process that stays on the host.
#[derive(Debug)]
pub(super) struct Outside {
    go: OwnedFd,
    told: OwnedFd,
}

/// How far the first process came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It stands, and has become the guest or ended.
    Stands,
    /// It failed, and said why.
    Failed(Vec<u8>),
    /// It ended without a word.
    Nothing,
}

impl Outside {
    /// Lets the first process go on. If it has ended by now, [`Self::listen`] hears
    /// of that.
    pub(super) fn release(&self) -> io::Result<()> {
        match rustix::io::write(&self.go, b"+") {
            Ok(_) | Err(Errno::PIPE) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the first process has become the guest or ended.
    pub(super) fn listen(&self) -> Result<Heard, Failure> {
        let said = plan::read_all(&self.told)?;
        Ok(match said.split_first() {
            None => Heard::Nothing,
            Some((&STANDS, [])) => Heard::Stands,
            Some((&STANDS, failure)) => Heard::Failed(failure.to_vec()),
            Some(_) => Heard::Failed(said),
        })
    }
}

/// The end of the first process of the sandbox.
#[derive(Debug)]
pub(super) struct First {
    wait: OwnedFd,
    tell: OwnedFd,
}

impl First {
    /// Waits to be let go. Whoever is not recorded does nothing: it ends here
    /// if the other process does.
    pub(super) fn wait(&self) {
        if rustix::io::read(&self.wait, &mut [0_u8]) != Ok(1) {
            end_now(1);
        }
    }

    /// Ends here if the other process is gone: it was to see this one off.
    pub(super) fn check(&self) {
        let mut end = [PollFd::new(&self.wait, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !matches!(poll(&mut end, Some(&now)), Ok(0) | Err(_)) {
            end_now(1);
        }
    }

    /// Says that the sandbox stands.
    pub(super) fn stands(&self) {
        rustix::io::write(&self.tell, &[STANDS]).ok();
    }

    /// Says what went wrong, and ends.
    pub(super) fn give_up(&self, failure: &Failure) -> ! {
        rustix::io::write(&self.tell, failure.json().as_bytes()).ok();
        end_now(1)
    }
}
