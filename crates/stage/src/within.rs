//! Running a program as the users of a sandbox.
//!
//! `vestal-stage within --plan-fd N -- PROGRAM ARGUMENTS…`: the program gets a
//! user namespace with the users of the plan, is root in it, and keeps the
//! number of this process, its standard streams and its directory.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitOptions, getpid, waitpid};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use vestal_wire::Users;

use crate::failure::{Failure, Step, Told, failed};
use crate::options::{Options, UsageError};
use crate::sys::process::{Cloned, clone, end_now};
use crate::{plan, program, users};

/// Runs the verb.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let order = match Order::parse(arguments) {
        Ok(order) => order,
        Err(error) => return program::misused(&error),
    };
    let told = match enter(order.plan) {
        Ok(()) => {
            let error = Command::new(&order.program).args(&order.arguments).exec();
            Failure::of(Step::Exec, error).at(order.program.as_encoded_bytes()).into()
        }
        Err(told) => told,
    };
    program::complain(told.line().trim_end());
    ExitCode::FAILURE
}

/// What is asked for.
#[derive(Debug)]
struct Order {
    plan: i32,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Order {
    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, UsageError> {
        let mut arguments = arguments;
        let options = Options::parse(
            arguments.by_ref().take_while(|argument| argument != "--"),
            &["--plan-fd"],
        )?;
        let plan = options.number("--plan-fd")?;
        let program = arguments.next().ok_or(UsageError::NoProgram)?;
        Ok(Self { plan, program, arguments: arguments.collect() })
    }
}

/// Enters a user namespace as its root.
fn enter(plan: i32) -> Result<(), Told> {
    let users: Users = plan::read(plan)?;
    users::check(&users)?;
    // The maps are written by somebody who stays outside: a copy of this process.
    let (asked, ask) = pipe_with(PipeFlags::CLOEXEC).map_err(failed(Step::MapUsers))?;
    let (told, tell) = pipe_with(PipeFlags::CLOEXEC).map_err(failed(Step::MapUsers))?;
    let own = getpid();
    let writer = match clone(0).map_err(failed(Step::MapUsers))? {
        Cloned::Child => {
            drop((ask, told));
            if rustix::io::read(&asked, &mut [0_u8]) == Ok(1)
                && let Err(failure) = users::write(own, &users)
            {
                rustix::io::write(&tell, failure.json().as_bytes()).ok();
                end_now(1);
            }
            end_now(0)
        }
        Cloned::Parent(child) => child,
    };
    drop((asked, tell));
    let entered = unshare_users();
    if entered.is_ok() {
        rustix::io::write(&ask, b"+").ok();
    }
    drop(ask);
    let said = plan::read_all(&told)?;
    waitpid(Some(writer.pid), WaitOptions::empty()).map_err(failed(Step::MapUsers))?;
    entered?;
    if !said.is_empty() {
        return Err(Told::by(&said));
    }
    users::become_root(&users.mapping).map_err(failed(Step::Credentials))?;
    Ok(())
}

#[expect(unsafe_code, reason = "the library holds all unsharing to be as unsafe as of descriptors")]
fn unshare_users() -> Result<(), Failure> {
    // SAFETY: descriptors stay shared; this process has one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.map_err(failed(Step::UserNamespace))
}
