//! The command line.

use std::ffi::OsStr;
use std::process::ExitCode;

use crate::options::UsageError;
use crate::{copy, enclose, within};

const USAGE: &str = "usage: vestal-stage enclose --plan-fd N --ready-fd N --hold-fd N
       vestal-stage within --plan-fd N -- PROGRAM [ARGUMENT…]
       vestal-stage copy FROM TO
       vestal-stage --version";

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let verb = arguments.next();
    match verb.as_deref().and_then(OsStr::to_str) {
        Some("enclose") => enclose::main(arguments),
        Some("within") => within::main(arguments),
        Some("copy") => copy::main(arguments),
        Some("--version" | "-V") => {
            say(concat!("vestal-stage ", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        _ => misused(&UsageError::UnknownVerb),
    }
}

/// Says what is wrong with the command line.
pub(crate) fn misused(error: &UsageError) -> ExitCode {
    complain(&format!("vestal-stage: {error}\n{USAGE}"));
    ExitCode::from(2)
}

#[expect(clippy::print_stdout, reason = "this is the program's own standard output")]
fn say(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "this is the program's own standard error")]
pub(crate) fn complain(line: &str) {
    eprintln!("{line}");
}
