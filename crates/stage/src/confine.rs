//! Becoming what a program is to run as.
//!
//! `confine`: gives up rights in a container that another program has built.
//!
//! `vestal-stage confine PLAN -- PROGRAM ARGUMENTS…` reads the plan, a file, gives up
//! what it does not keep, and executes the program. The program keeps the pid, the
//! standard streams, the environment and the directory.
//!
//! `within`: runs a program as root of a sandbox's users.
//!
//! `vestal-stage within --plan-fd N -- PROGRAM ARGUMENTS…` creates a user
//! namespace with the users of the plan and executes the program as root in it. The
//! program keeps the pid, the standard streams and the working directory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use minicbor::bytes::ByteVec;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, WaitOptions, getpid, getrlimit, setrlimit, waitpid};
use rustix::thread::set_no_new_privs;
use vestal_wire::{ContainerConfinement, UserMapping};

use crate::failure::{BuildStep, ReportedFailure, StepFailure, failed, failed_at};
use crate::program::{self, DescriptorOptions, UsageError};
use crate::sys::{self, Cloned, clone, exit_now};
use crate::users;

/// Runs the command `confine`.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match ConfineOptions::parse(arguments) {
        Ok(options) => options,
        Err(error) => return program::usage_error(&error),
    };
    let failure = match confine(&options.plan) {
        Ok(hidden) => {
            let mut command = Command::new(&options.program);
            command.args(&options.arguments);
            for name in hidden_variables(inherited_variables(), &hidden) {
                command.env_remove(name);
            }
            let error = command.exec();
            StepFailure::of(BuildStep::Exec, error).at(options.program.as_encoded_bytes())
        }
        Err(failure) => failure,
    };
    program::print_error(ReportedFailure::from(failure).line().trim_end());
    ExitCode::FAILURE
}

/// The command line.
#[derive(Debug, PartialEq, Eq)]
struct ConfineOptions {
    plan: OsString,
    program: OsString,
    arguments: Vec<OsString>,
}

impl ConfineOptions {
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, UsageError> {
        let plan = arguments.next().filter(|plan| plan != "--").ok_or(UsageError::NoPlan)?;
        match arguments.next() {
            Some(separator) if separator == "--" => {}
            Some(other) => {
                return Err(UsageError::UnknownOption(other.to_string_lossy().into_owned()));
            }
            None => return Err(UsageError::NoProgram),
        }
        let program = arguments.next().ok_or(UsageError::NoProgram)?;
        Ok(Self { plan, program, arguments: arguments.collect() })
    }
}

/// Gives up what the plan does not keep, and returns the variables that are hidden.
fn confine(plan: &OsStr) -> Result<Vec<String>, StepFailure> {
    let file = File::open(plan).map_err(failed_at(BuildStep::Plan, plan.as_bytes()))?;
    let bytes = program::read_all(file)?;
    let plan: ContainerConfinement = vestal_wire::decode(&bytes)
        .map_err(|error| StepFailure::new(BuildStep::Plan, error.to_string()))?;
    sys::leave_session_keyring();
    if let Some(max) = plan.max_processes {
        limit_processes(max).map_err(failed(BuildStep::MaxProcesses))?;
    }
    sys::keep_capabilities(plan.capabilities).map_err(failed(BuildStep::Capabilities))?;
    restrict()?;
    install_filters(&plan.filters)?;
    Ok(plan.hidden_variables)
}

/// Returns the names of all variables.
#[expect(clippy::disallowed_methods, reason = "what another program adds is no setting")]
fn inherited_variables() -> impl Iterator<Item = OsString> {
    std::env::vars_os().map(|(name, _)| name)
}

/// Returns the variables whose names begin with one of these words.
fn hidden_variables(names: impl Iterator<Item = OsString>, words: &[String]) -> Vec<OsString> {
    let is_hidden = |name: &OsString| {
        words.iter().any(|word| name.as_encoded_bytes().starts_with(word.as_bytes()))
    };
    names.filter(is_hidden).collect()
}

/// Gives up gaining privileges, and reaching processes and sockets outside.
pub(crate) fn restrict() -> Result<(), StepFailure> {
    set_no_new_privs(true).map_err(failed(BuildStep::NoNewPrivileges))?;
    sys::landlock_scope().map_err(failed(BuildStep::Landlock))
}

/// Installs filters in their order.
pub(crate) fn install_filters(filters: &[ByteVec]) -> Result<(), StepFailure> {
    for filter in filters {
        sys::install_filter(filter).map_err(failed(BuildStep::Seccomp))?;
    }
    Ok(())
}

/// Limits the number of processes, never beyond the current hard limit.
pub(crate) fn limit_processes(max: u64) -> rustix::io::Result<()> {
    let hard = getrlimit(Resource::Nproc).maximum;
    let max = hard.map_or(max, |hard| hard.min(max));
    setrlimit(Resource::Nproc, Rlimit { current: Some(max), maximum: Some(max) })
}

/// Runs the command `within`.
pub(crate) fn main_of_within(arguments: impl Iterator<Item = OsString>) -> ExitCode {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_hidden_by_how_they_begin() {
        let names = ["PATH", "APPTAINER_BIND", "PS1"].map(OsString::from);
        let hidden = hidden_variables(names.into_iter(), &["APPTAINER_".into(), "PS1".into()]);
        assert_eq!(hidden, ["APPTAINER_BIND", "PS1"]);
    }

    #[test]
    fn the_plan_is_distinguished_from_the_program() {
        let parse = |words: &[&str]| ConfineOptions::parse(words.iter().map(OsString::from));
        let options = parse(&["/plan", "--", "/program", "--plan", "--"]).unwrap();
        assert_eq!(options.arguments, ["--plan", "--"]);
        assert_eq!(parse(&["--", "/program"]), Err(UsageError::NoPlan));
        assert_eq!(parse(&["/plan"]), Err(UsageError::NoProgram));
        assert_eq!(parse(&["/plan", "--"]), Err(UsageError::NoProgram));
        assert_eq!(parse(&["/plan", "-x"]), Err(UsageError::UnknownOption("-x".into())));
    }
}
