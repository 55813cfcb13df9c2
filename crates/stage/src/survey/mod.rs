//! What a sandbox is planned from: facts about a machine, and a snapshot of its `/etc`.
//!
//! A host that makes sandboxes of its own calls this as a library. For a machine that is reached
//! over a network the stage is put there, and answers the two commands:
//!
//! `vestal-stage survey` writes a [`MachineSurvey`](vestal_wire::survey::MachineSurvey) to its
//! standard output.
//! `vestal-stage etc DIR` makes a snapshot of `/etc` in DIR, which does not exist.

mod accounts;
pub mod etc;
pub mod facts;
mod report;
pub mod resolve;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

pub use report::{MAX_REPORT, from_report};

use self::etc::EtcScan;
use self::facts::HostFacts;
use crate::program::{self, UsageError};

/// Runs the command `survey`.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    if let Some(extra) = arguments.next() {
        return program::usage_error(&UsageError::UnknownOption(extra.display().to_string()));
    }
    let written = vestal_wire::encode(&report::to_report(&HostFacts::gather()))
        .map_err(io::Error::other)
        .and_then(|bytes| {
            let mut output = io::stdout().lock();
            output.write_all(&bytes)?;
            output.flush()
        });
    ended(written)
}

/// Runs the command `etc`.
pub(crate) fn main_of_etc(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(dir), None) = (arguments.next(), arguments.next()) else {
        return program::usage_error(&UsageError::Missing("one directory"));
    };
    ended(snapshot(dir.as_ref()))
}

fn snapshot(dir: &Path) -> io::Result<()> {
    etc::make_directory(dir)?;
    EtcScan::of(Path::new("/")).write(dir)
}

fn ended(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            program::print_error(&error.to_string());
            ExitCode::FAILURE
        }
    }
}
