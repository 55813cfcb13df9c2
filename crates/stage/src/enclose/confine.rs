//! Giving up what a sandbox is not to have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::set_no_new_privs;
use vestal_wire::Enclosure;

use crate::failpoint::failpoint;
use crate::failure::{Failure, Step, failed};
use crate::sys::{landlock, process, seccomp};
use crate::users::limit_process;

/// Confines this process and all that come from it.
pub(super) fn confine(plan: &Enclosure) -> Result<(), Failure> {
    if let Some(most) = plan.max_processes {
        limit_processes(most).map_err(failed(Step::MaxProcesses))?;
    }
    let limits = plan.user_limits.unwrap_or_default();
    limit_process(&limits).map_err(failed(Step::MaxProcesses))?;
    process::keep_capabilities(plan.capabilities).map_err(failed(Step::Capabilities))?;
    failpoint!("stage.first.after-capabilities");
    set_no_new_privs(true).map_err(failed(Step::NoNewPrivileges))?;
    landlock::scope().map_err(failed(Step::Landlock))?;
    failpoint!("stage.first.after-landlock");
    for filter in &plan.filters {
        seccomp::install(filter).map_err(failed(Step::Seccomp))?;
    }
    failpoint!("stage.first.after-seccomp");
    Ok(())
}

/// Limits processes, never to more than this process may have.
fn limit_processes(most: u64) -> rustix::io::Result<()> {
    let hard = getrlimit(Resource::Nproc).maximum;
    let most = hard.map_or(most, |hard| hard.min(most));
    setrlimit(Resource::Nproc, Rlimit { current: Some(most), maximum: Some(most) })
}
