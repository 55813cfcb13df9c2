//! Control groups: where those of this process are, and making and removing
//! those of an instance.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a control group can limit here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Processes and threads.
    Pids,
}

impl Controller {
    /// Returns the kernel's name for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// Which of the kernel's two interfaces a hierarchy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// A hierarchy for each controller.
    One,
    /// One hierarchy for all.
    Two,
}

/// The control group that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) version: Version,
    pub(super) dir: PathBuf,
}

/// The hierarchies of this machine, as a process sees them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hierarchies {
    one: Vec<(String, PathBuf)>,
    two: Option<PathBuf>,
}

impl Hierarchies {
    /// Returns those of this process. Where nothing can be read there are none.
    pub(super) fn of_this_process() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
    }

    pub(super) fn parse(own: &str, mounts: &str) -> Self {
        let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
        let mut found = Self::default();
        for line in own.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(number), Some(names), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if number == "0" && names.is_empty() {
                let mount = mounts.iter().find(|mount| mount.kind == "cgroup2");
                found.two = mount.and_then(|mount| mount.below(path));
                continue;
            }
            for name in names.split(',') {
                let mount = mounts.iter().find(|mount| {
                    mount.kind == "cgroup" && mount.options.split(',').any(|own| own == name)
                });
                if let Some(dir) = mount.and_then(|mount| mount.below(path)) {
                    found.one.push((name.to_owned(), dir));
                }
            }
        }
        found
    }

    /// Returns the group of this process in the hierarchy of a controller.
    pub(super) fn own(&self, controller: Controller) -> Option<Own> {
        let one = self.one.iter().find(|(name, _)| name == controller.name());
        match (one, &self.two) {
            (Some((_, dir)), _) => Some(Own { version: Version::One, dir: dir.clone() }),
            (None, Some(dir)) => Some(Own { version: Version::Two, dir: dir.clone() }),
            (None, None) => None,
        }
    }

    /// Returns whether groups with a controller can be made, as far as that can
    /// be told without making one.
    pub(super) fn may_limit(&self, controller: Controller) -> bool {
        self.own(controller).is_some_and(|own| {
            let writable = rustix::fs::access(&own.dir, rustix::fs::Access::WRITE_OK).is_ok();
            let read = |file: &str| fs::read_to_string(own.dir.join(file));
            let has = match own.version {
                Version::One => true,
                Version::Two => read("cgroup.controllers").is_ok_and(|text| {
                    text.split_whitespace().any(|name| name == controller.name())
                }),
            };
            writable && has
        })
    }
}

/// Returns how many processes the kernel has killed for want of memory in the
/// control group of a process, where that can be seen from here.
pub(in crate::backends) fn memory_kills(pid: u32) -> Option<u64> {
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let group = Hierarchies::parse(&own, &mounts).own(Controller::Memory)?;
    let file = match group.version {
        Version::One => "memory.oom_control",
        Version::Two => "memory.events",
    };
    kills_in(&fs::read_to_string(group.dir.join(file)).ok()?)
}

fn kills_in(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// A line of `mountinfo`.
struct Mount<'a> {
    root: String,
    point: String,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        Some(Self { root: unescape(root), point: unescape(point), kind, options })
    }

    /// Returns where a group is below the mount; nothing for one that the mount
    /// does not show.
    fn below(&self, path: &str) -> Option<PathBuf> {
        if path.split('/').any(|part| part == "..") {
            return None;
        }
        let rest = Path::new(path).strip_prefix(&self.root).ok()?;
        Some(Path::new(&self.point).join(rest))
    }
}

/// Undoes what the kernel does to blanks in names.
fn unescape(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .into_iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (escaped, meant)| text.replace(escaped, meant))
}

/// How long a group may be busy after its last process has ended.
const BUSY_FOR: Duration = Duration::from_secs(5);

/// Time between two attempts at removing one.
const PAUSE: Duration = Duration::from_millis(5);

/// More than a page of memory on any machine.
const PAGE: u64 = 64 << 10;

/// Microseconds over which processor time is counted.
const PERIOD: u64 = 100_000;

/// A limit to be set: of what, and how much in the kernel's own unit:
/// thousandths of a processor, bytes, processes.
pub(super) type Wanted = (Controller, u64);

/// The groups of an instance.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Their directories.
    pub(super) dirs: Vec<PathBuf>,
    /// What could not be limited, and why.
    pub(super) refused: Vec<(Controller, String)>,
}

/// How the names of groups begin.
const PREFIX: &str = "vestal-";

/// Returns the name of an instance's groups.
pub(super) fn name(instance: &str) -> String {
    format!("{PREFIX}{instance}")
}

/// Returns where the groups of an instance will be, so that this can be written
/// down before there are any.
pub(super) fn places(hierarchies: &Hierarchies, instance: &str, wanted: &[Wanted]) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = Vec::new();
    for (controller, _) in wanted {
        if let Some(own) = hierarchies.own(*controller) {
            let place = own.dir.join(name(instance));
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

/// Makes groups with these limits. What cannot be limited is told, and no group
/// is left of it.
pub(super) fn make(hierarchies: &Hierarchies, instance: &str, wanted: &[Wanted]) -> Groups {
    let mut groups = Groups::default();
    // One that a guest left which ended by itself has the limits of then.
    for place in places(hierarchies, instance, wanted) {
        fs::remove_dir(place).ok();
    }
    for (controller, value) in wanted {
        let limited = match hierarchies.own(*controller) {
            Some(own) => limit(&own, instance, *controller, *value),
            None => Err(io::Error::new(
                ErrorKind::NotFound,
                format!("no control group for {} is mounted", controller.name()),
            )),
        };
        match limited {
            Ok(dir) if groups.dirs.contains(&dir) => {}
            Ok(dir) => groups.dirs.push(dir),
            Err(error) => groups.refused.push((*controller, error.to_string())),
        }
    }
    for place in places(hierarchies, instance, wanted) {
        if !groups.dirs.contains(&place) {
            fs::remove_dir(place).ok();
        }
    }
    groups
}

fn limit(own: &Own, instance: &str, controller: Controller, value: u64) -> io::Result<PathBuf> {
    if own.version == Version::Two {
        delegate(&own.dir, controller)?;
    }
    let dir = own.dir.join(name(instance));
    match fs::create_dir(&dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(named(&dir, &error)),
        _ => {}
    }
    for (file, text, needed) in settings(own.version, controller, value) {
        let path = dir.join(file);
        match fs::write(&path, text) {
            Err(error) if needed => return Err(named(&path, &error)),
            _ => {}
        }
    }
    check_memory(&dir, own.version, controller, value)?;
    Ok(dir)
}

/// Sees whether the kernel has taken a limit of memory as it was meant. It counts
/// in pages, and rounds.
fn check_memory(
    dir: &Path,
    version: Version,
    controller: Controller,
    value: u64,
) -> io::Result<()> {
    if controller != Controller::Memory {
        return Ok(());
    }
    let path = dir.join(match version {
        Version::One => "memory.limit_in_bytes",
        Version::Two => "memory.max",
    });
    let text = fs::read_to_string(&path).map_err(|error| named(&path, &error))?;
    match text.trim().parse::<u64>() {
        Ok(found) if found <= value.saturating_add(PAGE) => Ok(()),
        _ => Err(io::Error::other(format!("{} is {} after all", path.display(), text.trim()))),
    }
}

/// Lets groups below a group have a controller. The kernel refuses where the
/// group has processes of its own, unless it is the topmost.
fn delegate(dir: &Path, controller: Controller) -> io::Result<()> {
    let has = |file: &str| {
        let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
        text.split_whitespace().any(|name| name == controller.name())
    };
    if has("cgroup.subtree_control") {
        return Ok(());
    }
    let path = dir.join("cgroup.subtree_control");
    if !has("cgroup.controllers") {
        let missing =
            format!("the group {} has no controller {}", dir.display(), controller.name());
        return Err(io::Error::new(ErrorKind::NotFound, missing));
    }
    fs::write(&path, format!("+{}", controller.name())).map_err(|error| named(&path, &error))
}

/// Returns what is written to set a limit: the file, the text, and whether the
/// limit does not hold without it.
fn settings(
    version: Version,
    controller: Controller,
    value: u64,
) -> Vec<(&'static str, String, bool)> {
    // Thousandths of a processor, in microseconds of each period.
    let quota = (value.saturating_mul(PERIOD) / 1000).max(1000);
    match (version, controller) {
        (Version::One, Controller::Cpu) => vec![
            ("cpu.cfs_period_us", PERIOD.to_string(), true),
            ("cpu.cfs_quota_us", quota.to_string(), true),
        ],
        (Version::Two, Controller::Cpu) => vec![("cpu.max", format!("{quota} {PERIOD}"), true)],
        // As much may be swapped as may be held, where swap is counted at all.
        // The sum is never less than the memory alone: it makes way first.
        (Version::One, Controller::Memory) => vec![
            ("memory.memsw.limit_in_bytes", "-1".to_owned(), false),
            ("memory.limit_in_bytes", value.to_string(), true),
            ("memory.memsw.limit_in_bytes", value.saturating_mul(2).to_string(), false),
        ],
        (Version::Two, Controller::Memory) => vec![
            ("memory.max", value.to_string(), true),
            ("memory.swap.max", value.to_string(), false),
        ],
        (_, Controller::Pids) => vec![("pids.max", value.to_string(), true)],
    }
}

/// Returns the file of a group that a process joins it by: in version 1 the one
/// that takes single threads, which costs a process that moves itself nothing.
pub(super) fn entrance(dir: &Path) -> PathBuf {
    let threads = dir.join("tasks");
    if threads.exists() { threads } else { dir.join("cgroup.procs") }
}

/// Removes groups that no process is in any more; gone is fine. Only what has
/// the name of the instance's groups is touched.
pub(super) async fn remove(instance: &str, dirs: &[PathBuf]) -> io::Result<()> {
    let name = name(instance);
    let deadline = tokio::time::Instant::now() + BUSY_FOR;
    for dir in dirs.iter().filter(|dir| dir.file_name().is_some_and(|found| *found == *name)) {
        loop {
            match remove_group(dir) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                // The kernel lets go of the last process a moment after its end.
                Err(error)
                    if error.kind() == ErrorKind::ResourceBusy
                        && tokio::time::Instant::now() < deadline =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(named(dir, &error)),
            }
        }
    }
    Ok(())
}

/// Returns groups beside those of this process's instances that no process is in,
/// and that are of none of these instances.
pub(super) fn strays(hierarchies: &Hierarchies, known: &BTreeSet<String>) -> Vec<PathBuf> {
    let all = [Controller::Cpu, Controller::Memory, Controller::Pids];
    let own: BTreeSet<PathBuf> =
        all.into_iter().filter_map(|one| hierarchies.own(one)).map(|own| own.dir).collect();
    let is_stray = |dir: &PathBuf| {
        let name = dir.file_name().and_then(|name| name.to_str());
        let instance = name.and_then(|name| name.strip_prefix(PREFIX));
        instance.is_some_and(|instance| !known.contains(instance)) && is_deserted(dir)
    };
    let mut found: Vec<PathBuf> = own.iter().flat_map(|dir| below(dir)).filter(is_stray).collect();
    found.sort();
    found
}

/// Returns whether no process is in a group or in those below it. Of one that
/// cannot be looked at that is not known.
fn is_deserted(dir: &Path) -> bool {
    fs::read_to_string(dir.join("cgroup.procs")).is_ok_and(|processes| processes.is_empty())
        && below(dir).all(|dir| is_deserted(&dir))
}

/// Returns the groups in a group.
fn below(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    groups.map(|entry| entry.path())
}

/// Removes a group, and those that its own processes have made below it.
fn remove_group(dir: &Path) -> io::Result<()> {
    match fs::remove_dir(dir) {
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {
            for dir in below(dir) {
                remove_group(&dir).ok();
            }
            fs::remove_dir(dir)
        }
        other => other,
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
#[path = "cgroups_tests.rs"]
mod tests;
