//! `within`: runs a program as root of a sandbox's users.
//!
//! `vestal-stage within --plan-fd N -- PROGRAM ARGUMENTS…` creates a user
//! namespace with the users of the plan and executes the program as root in it. The
//! program keeps the pid, the standard streams and the working directory.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitOptions, getpid, waitpid};
use vestal_wire::UserMapping;

use crate::failure::{BuildStep, ReportedFailure, StepFailure, failed};
use crate::program::{self, DescriptorOptions, UsageError};
use crate::sys::{Cloned, clone, exit_now};
use crate::users;

/// Runs the command `within`.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match WithinOptions::parse(arguments) {
        Ok(options) => options,
        Err(error) => return program::usage_error(&error),
    };
    let reports = match enter(options.plan) {
        Ok(()) => {
            let error = Command::new(&options.program).args(&options.arguments).exec();
            StepFailure::of(BuildStep::Exec, error).at(options.program.as_encoded_bytes()).into()
        }
        Err(reports) => reports,
    };
    program::print_error(reports.line().trim_end());
    ExitCode::FAILURE
}

/// The command line.
#[derive(Debug)]
struct WithinOptions {
    plan: i32,
    program: OsString,
    arguments: Vec<OsString>,
}

impl WithinOptions {
    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, UsageError> {
        let mut arguments = arguments;
        let options = DescriptorOptions::parse(
            arguments.by_ref().take_while(|argument| argument != "--"),
            &["--plan-fd"],
        )?;
        let plan = options.number("--plan-fd")?;
        let program = arguments.next().ok_or(UsageError::NoProgram)?;
        Ok(Self { plan, program, arguments: arguments.collect() })
    }
}

/// Enters a new user namespace as root.
fn enter(plan: i32) -> Result<(), ReportedFailure> {
    let users: UserMapping = program::read_plan(plan)?;
    users::check(&users)?;
    // A process outside the namespace must write the maps: a copy of this
    // process.
    let (requests, request) = pipe_with(PipeFlags::CLOEXEC).map_err(failed(BuildStep::MapUsers))?;
    let (reports, report) = pipe_with(PipeFlags::CLOEXEC).map_err(failed(BuildStep::MapUsers))?;
    let own = getpid();
    let writer = match clone(0).map_err(failed(BuildStep::MapUsers))? {
        Cloned::Child => {
            drop((request, reports));
            if rustix::io::read(&requests, &mut [0_u8]) == Ok(1)
                && let Err(failure) = users::write_maps(own, &users)
            {
                rustix::io::write(&report, failure.json().as_bytes()).ok();
                exit_now(1);
            }
            exit_now(0)
        }
        Cloned::Parent(child) => child,
    };
    drop((requests, report));
    let entered = users::unshare_users().map_err(failed(BuildStep::UserNamespace));
    if entered.is_ok() {
        rustix::io::write(&request, b"+").ok();
    }
    drop(request);
    let reported = program::read_all(&reports)?;
    waitpid(Some(writer.pid), WaitOptions::empty()).map_err(failed(BuildStep::MapUsers))?;
    entered?;
    if !reported.is_empty() {
        return Err(ReportedFailure::from_json(&reported));
    }
    users::become_root(&users.mapping).map_err(failed(BuildStep::Credentials))?;
    Ok(())
}
