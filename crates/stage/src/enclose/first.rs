//! The first process of the sandbox, which builds it around itself.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd, RawFd};

use rustix::fs::Mode;
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use vestal_wire::{Enclosure, Mapping, Network, Purpose};

use super::lifeline::First;
use super::{build, confine};
use crate::failpoint::failpoint;
use crate::failure::{Failure, Step, failed, failed_at};
use crate::sys::{descriptors, network, process};
use crate::users;

/// What the first process begins with.
#[derive(Debug)]
pub(super) struct Parts<'p> {
    /// What there is to do.
    pub(super) plan: &'p Enclosure,
    /// The user namespace of the sandbox, where it is entered last.
    pub(super) users: Option<OwnedFd>,
    /// The tie to the process outside.
    pub(super) lifeline: First,
    /// Descriptors that are handed on.
    pub(super) handed: [RawFd; 2],
}

/// Builds the sandbox and becomes its guest.
pub(super) fn run(parts: &Parts<'_>) -> ! {
    failpoint!("stage.first.before-go");
    // Until it is on record it ends with the process outside, also where it
    // cannot look for that itself. Changing users takes this back.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
    parts.lifeline.wait();
    rustix::process::set_parent_process_death_signal(None).ok();
    failpoint!("stage.first.after-go");
    let failure = match stand(parts) {
        Ok(()) => match &parts.plan.purpose {
            Purpose::Serve { arguments, environment, .. } => {
                let bytes = |list: &[minicbor::bytes::ByteVec]| -> Vec<Vec<u8>> {
                    list.iter().map(|text| text.to_vec()).collect()
                };
                let (arguments, environment) = (bytes(arguments), bytes(environment));
                parts.lifeline.stands();
                failpoint!("stage.first.before-exec");
                let error = process::execute(&arguments, &environment);
                let program = arguments.first().map(Vec::as_slice).unwrap_or_default();
                Failure::of(Step::Exec, error).at(program)
            }
            Purpose::Trial => {
                parts.lifeline.stands();
                process::end_now(0)
            }
        },
        Err(failure) => failure,
    };
    parts.lifeline.give_up(&failure)
}

fn stand(parts: &Parts<'_>) -> Result<(), Failure> {
    let plan = parts.plan;
    // It fails for the leader of a session, which it is then.
    rustix::process::setsid().ok();
    process::leave_session_keyring();
    unshare_cgroups().map_err(failed(Step::Namespaces))?;
    if parts.users.is_none() {
        users::become_root(&plan.users.mapping).map_err(failed(Step::Credentials))?;
        let limits = plan.user_limits.unwrap_or_default();
        users::limit_namespace(&limits).map_err(failed(Step::UserNamespace))?;
    }
    rustix::system::sethostname(plan.hostname.as_bytes()).map_err(failed(Step::Hostname))?;
    if plan.network == Network::None {
        network::raise_loopback().map_err(failed(Step::Loopback))?;
        let (first, last) = users::groups_to_ping(&plan.users);
        network::let_ping(first, last);
    }
    build::build(plan, parts.users.as_ref().map(OwnedFd::as_fd), &parts.lifeline)?;
    failpoint!("stage.first.after-pivot");
    if let Some(users) = &parts.users {
        move_into_link_name_space(users.as_fd(), Some(LinkNameSpaceType::User))
            .map_err(failed(Step::Credentials))?;
        users::become_root(&Mapping::Privileged).map_err(failed(Step::Credentials))?;
    }
    if matches!(plan.users.mapping, Mapping::Helpers { .. })
        && let Some(limits) = &plan.user_limits
    {
        users::descend(&plan.users, limits)?;
    }
    failpoint!("stage.first.after-users");
    hand_on(parts)?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    process::reset_signals();
    parts.lifeline.check();
    confine::confine(plan)
}

/// Has the guest inherit what it is to have and nothing else.
fn hand_on(parts: &Parts<'_>) -> Result<(), Failure> {
    // Streams of the host's own device become ones of the sandbox's, if it has
    // devices at all.
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        descriptors::silence(nothing.as_fd(), &parts.handed)
            .map_err(failed_at(Step::Descriptors, b"/dev/null"))?;
    }
    descriptors::keep_all_from_programs().map_err(failed(Step::Descriptors))?;
    for number in parts.handed {
        descriptors::hand_on(number).map_err(failed(Step::Descriptors))?;
    }
    Ok(())
}

/// Has the sandbox take its own cgroup for the topmost.
#[expect(unsafe_code, reason = "the library holds all unsharing to be as unsafe as of descriptors")]
fn unshare_cgroups() -> rustix::io::Result<()> {
    // SAFETY: descriptors stay shared; this process has one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWCGROUP) }
}
