//! One instance: its label, whether its guest lives, and killing what it runs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};
use vestal_wire::machine::{InstanceLabel, MachineState};

use super::places::{Places, age_ms};
use crate::process::tree;
use crate::{orphans, state_file};

/// Longest label, and longest identity of a guest, that is read.
const MAX_FILE: u64 = 64 << 10;

/// How long a killed guest may take to be gone.
const DEATH: Duration = Duration::from_secs(10);

/// Name of the file with the label.
const LABEL: &str = "label";

/// Name of the directory of the socket.
pub(super) const IO: &str = "io";

/// Name of the file in which the stage records the first process of a sandbox.
pub(super) const INIT: &str = "init.json";

/// A guest that is on record as having listened.
#[derive(Debug, PartialEq, Eq)]
struct Recorded {
    pid: u32,
    start: u64,
    boot: String,
}

impl Recorded {
    /// Reads who the guest of an instance is. One in namespaces is on record where it cannot
    /// write; any other has written it beside its socket.
    fn of(dir: &Path) -> Option<Self> {
        if is_enclosed(dir) {
            Self::read(&dir.join(INIT))
        } else {
            Self::read(&dir.join(IO).join("guest.json"))
        }
    }

    fn read(path: &Path) -> Option<Self> {
        let mut text = String::new();
        let file = state_file::open_to_read(path).ok()?;
        file.take(MAX_FILE).read_to_string(&mut text).ok()?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let (_, rest) = text.split_once(&format!("\"{name}\":"))?;
            rest.split([',', '}']).next()
        };
        Some(Self {
            pid: value("pid")?.parse().ok()?,
            start: value("pid_start")?.parse().ok()?,
            boot: value("boot")?.trim_matches('"').to_owned(),
        })
    }

    /// Returns whether exactly this process lives.
    fn is_alive(&self) -> bool {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        boot.is_ok_and(|boot| boot.trim() == self.boot)
            && tree::start_time(self.pid) == Some(self.start)
            && !is_zombie(self.pid)
    }

    /// Kills the process, and waits until it is gone.
    fn kill(&self) -> io::Result<()> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(());
        };
        let pinned = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pinned) => pinned,
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // What is pinned now may be another process by that number.
        if !self.is_alive() {
            return Ok(());
        }
        match rustix::process::pidfd_send_signal(&pinned, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
        let deadline = Instant::now() + DEATH;
        let mut ended = [PollFd::new(&pinned, PollFlags::IN)];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut ended, Some(&left)) {
                Ok(0) => {
                    let reason = format!("process {} does not die", self.pid);
                    return Err(io::Error::new(ErrorKind::TimedOut, reason));
                }
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['Z', 'X']))
}

/// Returns whether the guest of an instance is in namespaces. What is in them can write to the
/// directory of the socket, and is not believed.
pub(super) fn is_enclosed(dir: &Path) -> bool {
    let is_labelled = || {
        let label = read_label(dir).ok().flatten();
        label.is_some_and(|label| label.is_enclosed == Some(true))
    };
    dir.join(INIT).exists() || is_labelled()
}

/// Returns the number of the living guest's process.
pub(super) fn living(dir: &Path) -> Option<u32> {
    Recorded::of(dir).filter(Recorded::is_alive).map(|recorded| recorded.pid)
}

/// Returns whether the guest of an instance lives.
pub(super) fn is_running(dir: &Path) -> bool {
    living(dir).is_some()
}

/// Returns what an instance is doing.
pub(super) fn state(dir: &Path) -> io::Result<MachineState> {
    if is_running(dir) {
        return Ok(MachineState::Running);
    }
    // A guest removes its files there at its end, which set this time.
    match fs::symlink_metadata(dir.join(IO)) {
        Ok(metadata) => {
            Ok(MachineState::Stopped { for_ms: metadata.modified().ok().and_then(age_ms) })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(MachineState::Absent),
        Err(error) => Err(error),
    }
}

/// Kills every process of an instance.
pub(super) fn end(dir: &Path, id: &str) -> io::Result<()> {
    if let Some(recorded) = Recorded::of(dir)
        && recorded.is_alive()
    {
        recorded.kill()?;
    }
    orphans::kill_marked(&[id.to_owned()]);
    Ok(())
}

/// Removes the record of the first process of an earlier start.
pub(super) fn forget_init(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(INIT)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads the label of an instance.
pub(super) fn read_label(dir: &Path) -> io::Result<Option<InstanceLabel>> {
    let file = match state_file::open_to_read(&dir.join(LABEL)) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    vestal_wire::decode(&bytes).map(Some).map_err(io::Error::other)
}

/// Writes the label of an instance.
pub(super) fn write_label(dir: &Path, label: &InstanceLabel) -> io::Result<()> {
    let bytes = vestal_wire::encode(label).map_err(io::Error::other)?;
    let fresh = dir.join("label.new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(&fresh).and_then(|mut file: File| {
        file.write_all(&bytes)?;
        file.sync_all()
    });
    let written = written.and_then(|()| fs::rename(&fresh, dir.join(LABEL)));
    if written.is_err() {
        fs::remove_file(&fresh).ok();
    }
    written
}

/// Removes the directory of an instance.
pub(super) fn remove_tree(dir: &Path) -> io::Result<()> {
    match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    let mut first = None;
    let mut report = |line: &str| {
        first.get_or_insert_with(|| line.to_owned());
    };
    let left =
        crate::files::erase(dir, &mut report).map_err(|fault| io::Error::other(fault.message))?;
    match first {
        Some(line) if left > 0 => Err(io::Error::other(line)),
        _ => fs::remove_dir(dir),
    }
}

/// Returns the instances whose label `wanted` accepts, with their directories.
pub(super) fn labelled(
    places: &Places,
    wanted: impl Fn(&InstanceLabel) -> bool,
) -> Vec<(std::path::PathBuf, InstanceLabel)> {
    let dirs = places.instances().into_iter().filter_map(|id| {
        let dir = places.instance(&id).ok()?;
        // One whose label cannot be read is nobody's, and left alone.
        let label = read_label(&dir).ok()??;
        (label.instance == id && wanted(&label)).then_some((dir, label))
    });
    dirs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_of_a_guest_is_read_as_it_is_written() {
        let text = "{\"pid\":7,\"pid_start\":99,\"boot\":\"b-1\",\"incarnation\":\"i\",\
                    \"instance\":\"a\",\"generation\":3}\n";
        let expected = Recorded { pid: 7, start: 99, boot: "b-1".to_owned() };
        assert_eq!(Recorded::parse(text), Some(expected));
        for wrong in ["", "{}", "{\"pid\":-1}", "{\"pid\":1,\"pid_start\":2}"] {
            assert_eq!(Recorded::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_process_that_has_the_number_of_a_dead_guest_is_left_alone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let start = tree::start_time(child.id()).unwrap();
        let own = Recorded { pid: child.id(), start, boot: boot.trim().to_owned() };
        for other in [
            Recorded { start: start + 1, boot: own.boot.clone(), pid: own.pid },
            Recorded { boot: "another".to_owned(), start, pid: own.pid },
        ] {
            assert!(!other.is_alive());
            other.kill().unwrap();
        }
        assert!(child.try_wait().unwrap().is_none());
        assert!(own.is_alive());
        own.kill().unwrap();
        assert!(!own.is_alive(), "a zombie does not live");
        child.wait().unwrap();
    }
}
