//! The process that stays on the host.
//!
//! It reads the plan, joins the cgroups, clones the first process of the sandbox,
//! writes the user maps and the record of that process, and waits until the
//! sandbox is ready or has failed.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd as _, RawFd};
use std::process::ExitCode;

use rustix::fs::Mode;
use rustix::process::{Signal, WaitOptions, WaitStatus, pidfd_send_signal, waitpid};
use vestal_wire::{Enclosure, Mapping, Network, Purpose};

use super::first::{self, FirstProcess, FirstProcessState};
use crate::failpoint::failpoint;
use crate::failure::{BuildStep, ReportedFailure, StepFailure, failed, failed_at};
use crate::program::{self, DescriptorOptions, UsageError};
use crate::record::{describe_process, join_cgroups, remove_record, write_record};
use crate::sys::{self, Child, Cloned, clone};
use crate::users;

/// Runs the command `enclose`.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match Descriptors::parse(arguments) {
        Ok(descriptors) => run(descriptors),
        Err(error) => program::usage_error(&error),
    }
}

/// The inherited descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Descriptors {
    plan: RawFd,
    /// Receives the result. The guest inherits it.
    ready: RawFd,
    /// Passed on to the guest.
    hold: RawFd,
}

impl Descriptors {
    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, UsageError> {
        let options =
            DescriptorOptions::parse(arguments, &["--plan-fd", "--ready-fd", "--hold-fd"])?;
        Ok(Self {
            plan: options.number("--plan-fd")?,
            ready: options.number("--ready-fd")?,
            hold: options.number("--hold-fd")?,
        })
    }
}

/// Builds a sandbox, and writes the result unless the guest does.
fn run(numbers: Descriptors) -> ExitCode {
    let Ok(ready) = sys::inherited(numbers.ready) else {
        return ExitCode::from(2);
    };
    let (line, code) = match build(numbers) {
        Ok(Purpose::Serve { .. }) => return ExitCode::SUCCESS,
        Ok(Purpose::Trial) => ("{\"trial\":\"ok\"}\n".to_owned(), ExitCode::SUCCESS),
        Err(reports) => (reports.line(), ExitCode::FAILURE),
    };
    // If this fails, nobody reads it; the exit code says the same.
    rustix::io::write(ready, line.as_bytes()).ok();
    code
}

fn build(numbers: Descriptors) -> Result<Purpose, ReportedFailure> {
    let kept = [numbers.plan, numbers.ready, numbers.hold];
    sys::close_all_except(&kept).map_err(failed(BuildStep::Descriptors))?;
    let plan: Enclosure = program::read_plan(numbers.plan)?;
    let passed_on = [numbers.ready, numbers.hold];
    for number in passed_on {
        sys::inherited(number).map_err(failed(BuildStep::Descriptors))?;
    }
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(failed_at(BuildStep::Descriptors, b"/dev/null"))?;
    sys::null_std_streams(null.as_fd(), &passed_on).map_err(failed(BuildStep::Descriptors))?;
    drop(null);
    users::check(&plan.users)?;
    failpoint!("stage.enclose.after-plan");
    // Signals of a terminal must not reach the sandbox. It fails for a group
    // leader, which already has its own session or group.
    rustix::process::setsid().ok();
    rustix::process::umask(Mode::empty());

    let users = match plan.users.mapping {
        Mapping::Privileged => {
            Some(users::make_namespace(&plan.users, &plan.user_limits.unwrap_or_default())?)
        }
        Mapping::Own | Mapping::Helpers { .. } => None,
    };
    join_cgroups(&plan.cgroups)?;
    failpoint!("stage.enclose.after-cgroups");
    let (outside, first) = first::handshake_pipes()?;
    match clone(namespaces(&plan)).map_err(failed(BuildStep::Namespaces))? {
        Cloned::Child => {
            drop(outside);
            first::run(&FirstProcess { plan: &plan, users, pipes: first, passed_on })
        }
        Cloned::Parent(child) => {
            drop((first, users));
            failpoint!("stage.enclose.after-clone");
            let ready = wait_until_ready(&plan, &child, &outside);
            if ready.is_err()
                && let Purpose::Serve { record, .. } = &plan.purpose
            {
                remove_record(record);
            }
            failpoint!("stage.enclose.before-leaving");
            ready.map(|()| plan.purpose)
        }
    }
}

fn namespaces(plan: &Enclosure) -> i32 {
    let always = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    let network = match plan.network {
        Network::Host => 0,
        Network::None => libc::CLONE_NEWNET,
    };
    let users = match plan.users.mapping {
        Mapping::Privileged => 0,
        Mapping::Own | Mapping::Helpers { .. } => libc::CLONE_NEWUSER,
    };
    always | network | users
}

/// Waits until the sandbox is ready. After a failure the first process and all
/// its mounts are gone.
fn wait_until_ready(
    plan: &Enclosure,
    child: &Child,
    pipes: &first::OuterPipes,
) -> Result<(), ReportedFailure> {
    if let Err(failure) = register(plan, child, pipes) {
        pidfd_send_signal(&child.handle, Signal::KILL).ok();
        wait(child)?;
        return Err(failure.into());
    }
    match (pipes.wait_ready()?, &plan.purpose) {
        (FirstProcessState::Ready, Purpose::Serve { .. }) => Ok(()),
        (FirstProcessState::Ready, Purpose::Trial) => {
            let status = wait(child)?;
            if status.exit_status() == Some(0) { Ok(()) } else { Err(ended(status).into()) }
        }
        (FirstProcessState::Failed(reported), _) => {
            wait(child)?;
            Err(ReportedFailure::from_json(&reported))
        }
        (FirstProcessState::Ended, _) => Err(ended(wait(child)?).into()),
    }
}

/// Does what must be done before anything runs in the sandbox.
fn register(plan: &Enclosure, child: &Child, pipes: &first::OuterPipes) -> Result<(), StepFailure> {
    match plan.users.mapping {
        Mapping::Privileged => {}
        Mapping::Own | Mapping::Helpers { .. } => users::write_maps(child.pid, &plan.users)?,
    }
    failpoint!("stage.enclose.after-maps");
    if let Purpose::Serve { record, .. } = &plan.purpose {
        let process = describe_process(child.pid)
            .map_err(|error| StepFailure::of(BuildStep::Record, error).at(record))?;
        write_record(record, &format!("{process}\n"))?;
    }
    failpoint!("stage.enclose.after-record");
    pipes.release().map_err(failed(BuildStep::Namespaces))?;
    failpoint!("stage.enclose.after-go");
    Ok(())
}

fn wait(child: &Child) -> Result<WaitStatus, StepFailure> {
    match waitpid(Some(child.pid), WaitOptions::empty()) {
        Ok(Some((_, status))) => Ok(status),
        Ok(None) => {
            Err(StepFailure::new(BuildStep::Ended, "the first process cannot be waited for"))
        }
        Err(error) => Err(StepFailure::of(BuildStep::Ended, error)),
    }
}

fn ended(status: WaitStatus) -> StepFailure {
    let how = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("with code {code}"),
        (None, Some(signal)) => format!("by signal {signal}"),
        (None, None) => "in an unknown way".to_owned(),
    };
    StepFailure::new(
        BuildStep::Ended,
        format!("the first process ended {how} before the sandbox was ready"),
    )
}
