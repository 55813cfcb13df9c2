//! Looking at the machine's processes.

use std::path::Path;

use vestal_testkit::living;
pub(crate) use vestal_testkit::{kill, marker, processes_with, until_async as until};

/// Returns the living processes that have files of a fixture mounted where only
/// its containers do, or whose program is one of its.
pub(crate) fn processes_of(root: &Path) -> Vec<u32> {
    let name = root.file_name().unwrap().to_str().unwrap();
    living(|pid| {
        let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        mounts.lines().any(|line| line.contains(" /.vestal/") && line.contains(name))
            || program.is_ok_and(|path| path.starts_with(root))
    })
}
