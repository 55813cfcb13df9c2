//! The command line: verbs, options and the plan that a verb reads.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, RawFd};
use std::process::ExitCode;

use minicbor::Decode;
use vestal_wire::limits::MAX_MESSAGE;

use crate::failure::{BuildStep, StepFailure, failed};
use crate::{confine, copy, enclose, launch, survey, sys};

const USAGE: &str = "usage: vestal-stage enclose --plan-fd N --ready-fd N --hold-fd N
       vestal-stage within --plan-fd N -- PROGRAM [ARGUMENT…]
       vestal-stage copy [--with-caller] FROM TO
       vestal-stage survey
       vestal-stage etc DIR
       vestal-stage launch --plan-fd N --ready-fd N --hold-fd N
       vestal-stage confine PLAN -- PROGRAM [ARGUMENT…]
       vestal-stage --version";

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let verb = arguments.next();
    match verb.as_deref().and_then(OsStr::to_str) {
        Some("enclose") => enclose::main(arguments),
        Some("within") => confine::main_of_within(arguments),
        Some("copy") => copy::main(arguments),
        Some("launch") => launch::main(arguments),
        Some("confine") => confine::main(arguments),
        Some("survey") => survey::main(arguments),
        Some("etc") => survey::main_of_etc(arguments),
        Some("--version" | "-V") => {
            print_line(concat!("vestal-stage ", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        _ => usage_error(&UsageError::UnknownVerb),
    }
}

/// Prints what is wrong with the command line.
pub(crate) fn usage_error(error: &UsageError) -> ExitCode {
    print_error(&format!("vestal-stage: {error}\n{USAGE}"));
    ExitCode::from(2)
}

#[expect(clippy::print_stdout, reason = "this is the program's own standard output")]
fn print_line(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "this is the program's own standard error")]
pub(crate) fn print_error(line: &str) {
    eprintln!("{line}");
}

/// What is wrong with a command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("unknown command")]
    UnknownVerb,
    #[error("unknown option {0}")]
    UnknownOption(String),
    #[error("{0} needs a descriptor number")]
    NoDescriptor(String),
    #[error("{0} is required")]
    Missing(&'static str),
    #[error("descriptor {0} is used twice")]
    Twice(RawFd),
    #[error("no program to run")]
    NoProgram,
    #[error("no plan")]
    NoPlan,
}

/// Descriptors by the names of their options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DescriptorOptions {
    numbers: Vec<(&'static str, RawFd)>,
}

impl DescriptorOptions {
    /// Parses options. Each has its own descriptor.
    pub(crate) fn parse(
        arguments: impl Iterator<Item = OsString>,
        known: &[&'static str],
    ) -> Result<Self, UsageError> {
        let mut arguments = arguments;
        let mut numbers = Vec::new();
        while let Some(name) = arguments.next() {
            let text = || name.to_string_lossy().into_owned();
            let known = known.iter().find(|known| name == **known);
            let known = known.ok_or_else(|| UsageError::UnknownOption(text()))?;
            let number = arguments.next().as_deref().and_then(number);
            let number = number.ok_or_else(|| UsageError::NoDescriptor(text()))?;
            if numbers.iter().any(|(_, taken)| *taken == number) {
                return Err(UsageError::Twice(number));
            }
            numbers.push((*known, number));
        }
        Ok(Self { numbers })
    }

    /// Returns the descriptor of an option.
    pub(crate) fn number(&self, name: &'static str) -> Result<RawFd, UsageError> {
        let found = self.numbers.iter().find(|(known, _)| *known == name);
        found.map(|(_, number)| *number).ok_or(UsageError::Missing(name))
    }
}

fn number(text: &OsStr) -> Option<RawFd> {
    text.to_str()?.parse().ok().filter(|number| *number >= 0)
}

/// Reads a plan from an inherited descriptor.
pub(crate) fn read_plan<T: for<'b> Decode<'b, ()>>(number: RawFd) -> Result<T, StepFailure> {
    let inherited = sys::inherited(number).map_err(failed(BuildStep::Plan))?;
    let bytes = read_all(inherited)?;
    vestal_wire::decode(&bytes)
        .map_err(|error| StepFailure::new(BuildStep::Plan, error.to_string()))
}

/// Reads to the end, up to the limit of a message.
pub(crate) fn read_all(source: impl AsFd) -> Result<Vec<u8>, StepFailure> {
    let own = source.as_fd().try_clone_to_owned().map_err(failed(BuildStep::Plan))?;
    let mut bytes = Vec::new();
    let limit = MAX_MESSAGE as u64;
    File::from(own).take(limit).read_to_end(&mut bytes).map_err(failed(BuildStep::Plan))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<DescriptorOptions, UsageError> {
        DescriptorOptions::parse(arguments.iter().map(OsString::from), &["--a", "--b"])
    }

    #[test]
    fn options_are_understood() {
        let options = parse(&["--b", "4", "--a", "0"]).unwrap();
        assert_eq!(options.number("--a"), Ok(0));
        assert_eq!(options.number("--b"), Ok(4));
        assert_eq!(options.number("--c"), Err(UsageError::Missing("--c")));
    }

    #[test]
    fn wrong_options_are_reported_as_wrong() {
        let missing = || UsageError::NoDescriptor("--a".into());
        assert_eq!(parse(&["--c", "1"]), Err(UsageError::UnknownOption("--c".into())));
        for wrong in [&["--a"][..], &["--a", "x"], &["--a", "-1"]] {
            assert_eq!(parse(wrong), Err(missing()), "{wrong:?}");
        }
        assert_eq!(parse(&["--a", "3", "--b", "3"]), Err(UsageError::Twice(3)));
    }
}
