//! The process that stays on the host.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use rustix::fs::Mode;
use rustix::process::{Signal, WaitOptions, WaitStatus, pidfd_send_signal, waitpid};
use vestal_wire::{Enclosure, Mapping, Network, Purpose};

use super::first::{self, Parts};
use super::lifeline::{self, Heard};
use super::{Descriptors, cgroups, record};
use crate::failpoint::failpoint;
use crate::failure::{Failure, Step, Told, failed, failed_at};
use crate::sys::descriptors;
use crate::sys::process::{Child, Cloned, clone};
use crate::{plan, users};

/// Builds a sandbox, and says how it went where the plan's guest does not.
pub(super) fn run(numbers: Descriptors) -> ExitCode {
    let Ok(ready) = descriptors::inherited(numbers.ready) else {
        return ExitCode::from(2);
    };
    let (line, code) = match build(numbers) {
        Ok(Purpose::Serve { .. }) => return ExitCode::SUCCESS,
        Ok(Purpose::Trial) => ("{\"trial\":\"ok\"}\n".to_owned(), ExitCode::SUCCESS),
        Err(told) => (told.line(), ExitCode::FAILURE),
    };
    // Whoever listened is gone if this fails; the exit code says it too.
    rustix::io::write(ready, line.as_bytes()).ok();
    code
}

fn build(numbers: Descriptors) -> Result<Purpose, Told> {
    let kept = [numbers.plan, numbers.ready, numbers.hold];
    descriptors::close_all_but(&kept).map_err(failed(Step::Descriptors))?;
    let plan: Enclosure = plan::read(numbers.plan)?;
    let handed = [numbers.ready, numbers.hold];
    for number in handed {
        descriptors::inherited(number).map_err(failed(Step::Descriptors))?;
    }
    let nothing = File::options().read(true).write(true).open("/dev/null");
    let nothing = nothing.map_err(failed_at(Step::Descriptors, b"/dev/null"))?;
    descriptors::silence(nothing.as_fd(), &handed).map_err(failed(Step::Descriptors))?;
    drop(nothing);
    users::check(&plan.users)?;
    failpoint!("stage.enclose.after-plan");
    // A terminal's signals are not for a sandbox. It fails for the leader of a
    // group, which was given a session or group of its own already.
    rustix::process::setsid().ok();
    rustix::process::umask(Mode::empty());

    let users = match plan.users.mapping {
        Mapping::Privileged => {
            Some(users::make(&plan.users, &plan.user_limits.unwrap_or_default())?)
        }
        Mapping::Own | Mapping::Helpers { .. } => None,
    };
    cgroups::join(&plan.cgroups)?;
    failpoint!("stage.enclose.after-cgroups");
    let (outside, first) = lifeline::pair()?;
    match clone(namespaces(&plan)).map_err(failed(Step::Namespaces))? {
        Cloned::Child => {
            drop(outside);
            first::run(&Parts { plan: &plan, users, lifeline: first, handed })
        }
        Cloned::Parent(child) => {
            drop((first, users));
            failpoint!("stage.enclose.after-clone");
            let seen_off = see_off(&plan, &child, &outside);
            if seen_off.is_err()
                && let Purpose::Serve { record, .. } = &plan.purpose
            {
                record::remove(record);
            }
            failpoint!("stage.enclose.before-leaving");
            seen_off.map(|()| plan.purpose)
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

/// Sees the first process off. When this fails, it and all that was mounted in
/// its namespaces are gone.
fn see_off(plan: &Enclosure, child: &Child, lifeline: &lifeline::Outside) -> Result<(), Told> {
    if let Err(failure) = introduce(plan, child, lifeline) {
        pidfd_send_signal(&child.handle, Signal::KILL).ok();
        wait(child)?;
        return Err(failure.into());
    }
    match (lifeline.listen()?, &plan.purpose) {
        (Heard::Stands, Purpose::Serve { .. }) => Ok(()),
        (Heard::Stands, Purpose::Trial) => {
            let status = wait(child)?;
            if status.exit_status() == Some(0) { Ok(()) } else { Err(ended(status).into()) }
        }
        (Heard::Failed(said), _) => {
            wait(child)?;
            Err(Told::by(&said))
        }
        (Heard::Nothing, _) => Err(ended(wait(child)?).into()),
    }
}

/// Does what the host must have done before anything runs in the sandbox.
fn introduce(plan: &Enclosure, child: &Child, lifeline: &lifeline::Outside) -> Result<(), Failure> {
    match plan.users.mapping {
        Mapping::Privileged => {}
        Mapping::Own | Mapping::Helpers { .. } => users::write(child.pid, &plan.users)?,
    }
    failpoint!("stage.enclose.after-maps");
    if let Purpose::Serve { record, .. } = &plan.purpose {
        record::write(record, child.pid)?;
    }
    failpoint!("stage.enclose.after-record");
    lifeline.release().map_err(failed(Step::Namespaces))?;
    failpoint!("stage.enclose.after-go");
    Ok(())
}

fn wait(child: &Child) -> Result<WaitStatus, Failure> {
    match waitpid(Some(child.pid), WaitOptions::empty()) {
        Ok(Some((_, status))) => Ok(status),
        Ok(None) => Err(Failure::new(Step::Ended, "the first process cannot be waited for")),
        Err(error) => Err(Failure::of(Step::Ended, error)),
    }
}

fn ended(status: WaitStatus) -> Failure {
    let how = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("with code {code}"),
        (None, Some(signal)) => format!("by signal {signal}"),
        (None, None) => "in an unknown way".to_owned(),
    };
    Failure::new(Step::Ended, format!("the first process ended {how} before the sandbox stood"))
}
