//! The first process of the sandbox. It builds the sandbox around itself, gives up
//! its privileges and executes the guest.
//!
//! Two pipes connect it to the process outside: it waits on one until it is on
//! record, and reports on the other whether the sandbox is ready.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use vestal_wire::{Enclosure, Mapping, Network, Purpose};

use super::build;
use crate::confine::{install_filters, limit_processes, restrict};
use crate::failpoint::failpoint;
use crate::failure::{BuildStep, StepFailure, failed, failed_at};
use crate::program;
use crate::sys::{self, exit_now};
use crate::users::{self, limit_process};

/// Sent by the first process when the sandbox is ready.
const READY: u8 = b'+';

/// Input of the first process.
#[derive(Debug)]
pub(super) struct FirstProcess<'p> {
    pub(super) plan: &'p Enclosure,
    /// The user namespace of the sandbox, if it is entered last.
    pub(super) users: Option<OwnedFd>,
    /// The pipes to the process outside.
    pub(super) pipes: InnerPipes,
    /// Descriptors passed on to the guest.
    pub(super) passed_on: [RawFd; 2],
}

/// Builds the sandbox and executes the guest.
pub(super) fn run(parts: &FirstProcess<'_>) -> ! {
    failpoint!("stage.first.before-go");
    // Until it is on record it must end with the process outside, even if it
    // cannot check that itself. A change of user clears this.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
    parts.pipes.wait();
    rustix::process::set_parent_process_death_signal(None).ok();
    failpoint!("stage.first.after-go");
    let failure = match build_and_confine(parts) {
        Ok(()) => match &parts.plan.purpose {
            Purpose::Serve { arguments, environment, .. } => {
                let bytes = |list: &[minicbor::bytes::ByteVec]| -> Vec<Vec<u8>> {
                    list.iter().map(|text| text.to_vec()).collect()
                };
                let (arguments, environment) = (bytes(arguments), bytes(environment));
                parts.pipes.report_ready();
                failpoint!("stage.first.before-exec");
                let error = sys::execute(&arguments, &environment);
                let program = arguments.first().map(Vec::as_slice).unwrap_or_default();
                StepFailure::of(BuildStep::Exec, error).at(program)
            }
            Purpose::Trial => {
                parts.pipes.report_ready();
                sys::exit_now(0)
            }
        },
        Err(failure) => failure,
    };
    parts.pipes.report_failure(&failure)
}

fn build_and_confine(parts: &FirstProcess<'_>) -> Result<(), StepFailure> {
    let plan = parts.plan;
    // It fails for a session leader, which needs no new session.
    rustix::process::setsid().ok();
    sys::leave_session_keyring();
    unshare_cgroups().map_err(failed(BuildStep::Namespaces))?;
    if parts.users.is_none() {
        users::become_root(&plan.users.mapping).map_err(failed(BuildStep::Credentials))?;
        let limits = plan.user_limits.unwrap_or_default();
        users::limit_namespace(&limits).map_err(failed(BuildStep::UserNamespace))?;
    }
    rustix::system::sethostname(plan.hostname.as_bytes()).map_err(failed(BuildStep::Hostname))?;
    if plan.network == Network::None {
        sys::bring_up_loopback().map_err(failed(BuildStep::Loopback))?;
        let (first, last) = users::ping_groups(&plan.users);
        sys::allow_ping(first, last);
    }
    build::build(plan, parts.users.as_ref().map(OwnedFd::as_fd), &parts.pipes)?;
    failpoint!("stage.first.after-pivot");
    if let Some(users) = &parts.users {
        move_into_link_name_space(users.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(failed(BuildStep::Credentials))?;
        users::become_root(&Mapping::Privileged).map_err(failed(BuildStep::Credentials))?;
    }
    if matches!(plan.users.mapping, Mapping::Helpers { .. })
        && let Some(limits) = &plan.user_limits
    {
        users::enter_inner_namespace(&plan.users, limits)?;
    }
    failpoint!("stage.first.after-users");
    pass_on_descriptors(parts)?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    sys::reset_signals();
    parts.pipes.check();
    confine(plan)
}

/// Passes on the descriptors for the guest and no others.
fn pass_on_descriptors(parts: &FirstProcess<'_>) -> Result<(), StepFailure> {
    // Standard streams that lead to the host's `/dev/null` are replaced by the
    // sandbox's own, if it has devices.
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        sys::null_std_streams(null.as_fd(), &parts.passed_on)
            .map_err(failed_at(BuildStep::Descriptors, b"/dev/null"))?;
    }
    sys::close_all_on_exec().map_err(failed(BuildStep::Descriptors))?;
    for number in parts.passed_on {
        sys::pass_on(number).map_err(failed(BuildStep::Descriptors))?;
    }
    Ok(())
}

/// Makes the sandbox see its own cgroup as the root.
#[expect(unsafe_code, reason = "the library holds all unsharing to be as unsafe as of descriptors")]
fn unshare_cgroups() -> rustix::io::Result<()> {
    // SAFETY: descriptors stay shared; this process has one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWCGROUP) }
}

/// Gives up all rights that the sandbox must not have.
fn confine(plan: &Enclosure) -> Result<(), StepFailure> {
    if let Some(max) = plan.max_processes {
        limit_processes(max).map_err(failed(BuildStep::MaxProcesses))?;
    }
    let limits = plan.user_limits.unwrap_or_default();
    limit_process(&limits).map_err(failed(BuildStep::MaxProcesses))?;
    sys::keep_capabilities(plan.capabilities).map_err(failed(BuildStep::Capabilities))?;
    failpoint!("stage.first.after-capabilities");
    restrict()?;
    failpoint!("stage.first.after-landlock");
    install_filters(&plan.filters)?;
    failpoint!("stage.first.after-seccomp");
    Ok(())
}

/// Creates the two pipes.
pub(super) fn handshake_pipes() -> Result<(OuterPipes, InnerPipes), StepFailure> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(failed(BuildStep::Namespaces));
    let (wait, go) = pipe()?;
    let (reports, report) = pipe()?;
    Ok((OuterPipes { go, reports }, InnerPipes { wait, report }))
}

/// The ends of the process outside.
#[derive(Debug)]
pub(super) struct OuterPipes {
    go: OwnedFd,
    reports: OwnedFd,
}

/// How the first process ended up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FirstProcessState {
    /// The sandbox is ready; the process has become the guest or exited.
    Ready,
    /// It failed and reported why.
    Failed(Vec<u8>),
    /// It ended without a report.
    Ended,
}

impl OuterPipes {
    /// Lets the first process continue. If it has ended, [`Self::wait_ready`]
    /// notices.
    pub(super) fn release(&self) -> io::Result<()> {
        match rustix::io::write(&self.go, b"+") {
            Ok(_) | Err(Errno::PIPE) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the first process has become the guest or exited.
    pub(super) fn wait_ready(&self) -> Result<FirstProcessState, StepFailure> {
        let reported = program::read_all(&self.reports)?;
        Ok(match reported.split_first() {
            None => FirstProcessState::Ended,
            Some((&READY, [])) => FirstProcessState::Ready,
            Some((&READY, failure)) => FirstProcessState::Failed(failure.to_vec()),
            Some(_) => FirstProcessState::Failed(reported),
        })
    }
}

/// The ends of the first process.
#[derive(Debug)]
pub(super) struct InnerPipes {
    wait: OwnedFd,
    report: OwnedFd,
}

impl InnerPipes {
    /// Waits until the process outside has written the record. Exits if that
    /// process ends.
    pub(super) fn wait(&self) {
        if rustix::io::read(&self.wait, &mut [0_u8]) != Ok(1) {
            exit_now(1);
        }
    }

    /// Exits if the process outside is gone.
    pub(super) fn check(&self) {
        let mut end = [PollFd::new(&self.wait, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !matches!(poll(&mut end, Some(&now)), Ok(0) | Err(_)) {
            exit_now(1);
        }
    }

    /// Reports that the sandbox is ready.
    fn report_ready(&self) {
        rustix::io::write(&self.report, &[READY]).ok();
    }

    /// Reports a failure and exits.
    fn report_failure(&self, failure: &StepFailure) -> ! {
        rustix::io::write(&self.report, failure.json().as_bytes()).ok();
        exit_now(1)
    }
}
