//! Building a sandbox around a guest.
//!
//! `vestal-stage enclose --plan-fd N --ready-fd N --hold-fd N`. Two processes do
//! it: the one that was started stays on the host, tells the host who the other
//! is, and sees it off; the other builds the sandbox around itself and becomes
//! the guest.

mod build;
mod cgroups;
mod confine;
mod first;
mod lifeline;
mod outside;
mod record;

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::process::ExitCode;

use crate::options::{Options, UsageError};
use crate::program;

/// Runs the verb.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match Descriptors::parse(arguments) {
        Ok(descriptors) => outside::run(descriptors),
        Err(error) => program::misused(&error),
    }
}

/// The descriptors that the stage was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Descriptors {
    /// Where the plan is.
    plan: RawFd,
    /// Where it is told how it went. The guest gets it too.
    ready: RawFd,
    /// For the guest.
    hold: RawFd,
}

impl Descriptors {
    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, UsageError> {
        let options = Options::parse(arguments, &["--plan-fd", "--ready-fd", "--hold-fd"])?;
        Ok(Self {
            plan: options.number("--plan-fd")?,
            ready: options.number("--ready-fd")?,
            hold: options.number("--hold-fd")?,
        })
    }
}
