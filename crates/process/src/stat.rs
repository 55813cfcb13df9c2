//! What the kernel says about a process.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;

/// The fields of `/proc/<pid>/stat` that tell who a process is and where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Whether it has ended and only waits for its parent to take note.
    pub(crate) zombie: bool,
    /// Whether a signal or a tracer stopped it.
    pub(crate) stopped: bool,
    /// Its process group.
    pub(crate) group: u32,
    /// Its session.
    pub(crate) session: u32,
    /// Start time in clock ticks since boot.
    pub(crate) start: u64,
}

impl Stat {
    /// Returns the stat of the process that has this number now, if one does.
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

/// Returns the numbers of all processes there are.
pub(crate) fn numbers() -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc")? {
        // An entry that went while it was listed is a process that ended.
        let Ok(entry) = entry else { continue };
        numbers.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// Reports whether a process was started with all of these variables, written
/// as `NAME=value`.
pub(crate) fn started_with(pid: u32, marks: &[OsString]) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let has = |mark: &OsString| {
        environment
            .split(|byte| *byte == 0)
            .any(|entry| OsString::from_vec(entry.to_vec()) == *mark)
    };
    !marks.is_empty() && marks.iter().all(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_may_contain_anything() {
        let line = "7 (a) R 1 (b)) S 1 70 71 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 9 9";
        assert_eq!(
            Stat::parse(line),
            Some(Stat { zombie: false, stopped: false, group: 70, session: 71, start: 12345 })
        );
    }
}
