//! Reads `/proc` entries of processes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;
use std::{fs, io};

/// The fields of `/proc/<pid>/stat` that identify a process, its group and its
/// session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Whether it has ended and was not reaped yet.
    pub(crate) zombie: bool,
    /// Whether a signal or a tracer stopped it.
    pub(crate) stopped: bool,
    /// Its process group.
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// Start time in clock ticks since boot.
    pub(crate) start: u64,
}

impl Stat {
    /// Returns the fields of the process that has this pid now, if any.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // The command name is in parentheses and may contain anything.
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = fields.next()?;
        let (zombie, stopped) = (matches!(state, "Z" | "X"), matches!(state, "T" | "t"));
        // The state was field 3 of the line; the group is field 5, the session
        // field 6, and the start time field 22.
        let group = fields.nth(1)?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        let start = fields.nth(15)?.parse().ok()?;
        Some(Self { zombie, stopped, group, session, start })
    }
}

/// Returns the pids of all processes.
pub(crate) fn numbers() -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // An entry that vanished is a process that ended.
        let Ok(entry) = entry else { continue };
        numbers.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// How often the environment of a process is read again if it seems not to carry
/// the marks.
const TRIES: usize = 100;

/// Returns whether a process was started with all of these variables, written as
/// `NAME=value`.
///
/// While a process executes another program, it shows no variables or only some
/// of them for a moment. So missing marks only count if the environment is the
/// same twice; an empty one gets some time.
pub(crate) fn started_with(pid: u32, marks: &[OsString]) -> bool {
    if marks.is_empty() {
        return false;
    }
    let mut before = Vec::new();
    for _ in 0..TRIES {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
        let has = |mark: &OsString| {
            environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
        };
        if marks.iter().all(has) {
            return true;
        }
        if environment.is_empty() {
            if Stat::of(pid).is_none_or(|stat| stat.zombie) {
                return false;
            }
            std::thread::sleep(Duration::from_micros(500));
        } else if environment == before {
            return false;
        }
        before = environment;
    }
    false
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_runs_other_programs_keeps_its_marks() {
        // It only executes another program in its place.
        let text = "exec sh -c \"$0\" \"$0\"";
        let mut child = Command::new("sh")
            .args(["-c", text, text])
            .env("TEST_MARK", "1")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let marks = [OsString::from("TEST_MARK=1")];
        let seen = (0..3000).filter(|_| started_with(child.id(), &marks)).count();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, 3000);
    }

    #[test]
    fn a_command_name_may_contain_anything() {
        let line = "7 (a) R 1 (b)) S 1 70 71 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 9 9";
        assert_eq!(
            Stat::parse(line),
            Some(Stat { zombie: false, stopped: false, group: 70, session: 71, start: 12345 })
        );
    }
}
