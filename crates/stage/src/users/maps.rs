//! Saying who the users of a namespace are.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use rustix::process::Pid;
use vestal_wire::{IdRange, Mapping, Users};

use crate::failure::{Failure, Step};

/// Says who the users in the namespace of a process are.
pub(crate) fn write(pid: Pid, users: &Users) -> Result<(), Failure> {
    match &users.mapping {
        Mapping::Own => {
            // Who could leave a group could reach what is forbidden to the group.
            tell(pid, "setgroups", "deny")?;
            write_directly(pid, users)
        }
        Mapping::Privileged => write_directly(pid, users),
        Mapping::Helpers { newuidmap, newgidmap } => {
            ask(newuidmap, pid, &users.uids)?;
            ask(newgidmap, pid, &users.gids)
        }
    }
}

fn write_directly(pid: Pid, users: &Users) -> Result<(), Failure> {
    tell(pid, "uid_map", &table(&users.uids))?;
    tell(pid, "gid_map", &table(&users.gids))
}

fn table(ranges: &[IdRange]) -> String {
    ranges.iter().fold(String::new(), |mut table, range| {
        writeln!(table, "{} {} {}", range.inside, range.outside, range.count).ok();
        table
    })
}

fn tell(pid: Pid, name: &str, content: &str) -> Result<(), Failure> {
    let path = format!("/proc/{}/{name}", pid.as_raw_nonzero());
    // The kernel takes the whole in one piece or not at all.
    let written = OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| file.write(content.as_bytes()))
        .and_then(|count| {
            let whole = count == content.len();
            if whole { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
        });
    written.map_err(|error| Failure::of(Step::MapUsers, error).at(path.as_bytes()))
}

/// Asks a setuid helper, which knows the ranges that belong to a user.
fn ask(helper: &[u8], pid: Pid, ranges: &[IdRange]) -> Result<(), Failure> {
    let mut command = Command::new(OsStr::from_bytes(helper));
    command.arg(pid.as_raw_nonzero().to_string());
    for range in ranges {
        command.args([range.inside, range.outside, range.count].map(|number| number.to_string()));
    }
    let output = command
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::of(Step::MapUsers, error).at(helper))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(Step::MapUsers, said.trim()).at(helper))
}
