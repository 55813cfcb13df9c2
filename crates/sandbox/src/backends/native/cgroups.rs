//! Control groups (cgroups): finding those of this process, and making and
//! removing those of an instance.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The controllers that limits need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    Cpu,
    Memory,
    Pids,
}

impl Controller {
    /// Returns the kernel's name of the controller.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// The cgroup interface of a hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CgroupVersion {
    /// cgroup v1: a hierarchy per controller.
    One,
    /// cgroup v2: one hierarchy for all controllers.
    Two,
}

/// The group of this process in a hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnGroup {
    pub(super) version: CgroupVersion,
    pub(super) dir: PathBuf,
}

/// The cgroup hierarchies that a process sees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::backends) struct Hierarchies {
    one: Vec<(String, PathBuf)>,
    two: Option<PathBuf>,
}

impl Hierarchies {
    /// Returns the hierarchies of this process; none if they cannot be read.
    pub(super) fn of_this_process() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
    }

    pub(super) fn parse(own: &str, mounts: &str) -> Self {
        let mounts: Vec<MountLine> = mounts.lines().filter_map(MountLine::parse).collect();
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
    pub(super) fn own(&self, controller: Controller) -> Option<OwnGroup> {
        let one = self.one.iter().find(|(name, _)| name == controller.name());
        match (one, &self.two) {
            (Some((_, dir)), _) => Some(OwnGroup { version: CgroupVersion::One, dir: dir.clone() }),
            (None, Some(dir)) => Some(OwnGroup { version: CgroupVersion::Two, dir: dir.clone() }),
            (None, None) => None,
        }
    }

    /// Returns whether this process can probably make groups with a controller. Only
    /// making one shows it for certain.
    pub(super) fn may_limit(&self, controller: Controller) -> bool {
        self.own(controller).is_some_and(|own| {
            let writable = rustix::fs::access(&own.dir, rustix::fs::Access::WRITE_OK).is_ok();
            let read = |file: &str| fs::read_to_string(own.dir.join(file));
            let has = match own.version {
                CgroupVersion::One => true,
                CgroupVersion::Two => read("cgroup.controllers").is_ok_and(|text| {
                    text.split_whitespace().any(|name| name == controller.name())
                }),
            };
            writable && has
        })
    }
}

/// Returns how many processes the kernel's OOM killer has killed in the group of a
/// process, if that group is visible from here.
pub(in crate::backends) fn memory_kills(pid: u32) -> Option<u64> {
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let group = Hierarchies::parse(&own, &mounts).own(Controller::Memory)?;
    let file = match group.version {
        CgroupVersion::One => "memory.oom_control",
        CgroupVersion::Two => "memory.events",
    };
    parse_oom_kills(&fs::read_to_string(group.dir.join(file)).ok()?)
}

fn parse_oom_kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// A line of `mountinfo`.
pub(super) struct MountLine<'a> {
    root: String,
    point: String,
    kind: &'a str,
    options: &'a str,
}

impl<'a> MountLine<'a> {
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        Some(Self { root: unescape(root), point: unescape(point), kind, options })
    }

    /// Returns where it is mounted.
    pub(super) fn point(&self) -> &str {
        &self.point
    }

    /// Returns the directory of a group below the mount; `None` if the mount does
    /// not contain it.
    fn below(&self, path: &str) -> Option<PathBuf> {
        if path.split('/').any(|part| part == "..") {
            return None;
        }
        let rest = Path::new(path).strip_prefix(&self.root).ok()?;
        Some(Path::new(&self.point).join(rest))
    }
}

/// Decodes the escapes of `mountinfo`.
fn unescape(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .into_iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (escaped, meant)| text.replace(escaped, meant))
}

/// How long the kernel may keep a group busy after its last process has ended.
const BUSY_FOR: Duration = Duration::from_secs(5);

/// Pause between two attempts to remove a group.
const PAUSE: Duration = Duration::from_millis(5);

/// Tolerance for rounding to pages, at least one page on every machine.
const PAGE: u64 = 64 << 10;

/// The CPU quota period in microseconds.
const PERIOD: u64 = 100_000;

/// A limit to set, in thousandths of a CPU, bytes or processes.
pub(super) type LimitRequest = (Controller, u64);

/// The groups of an instance.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Their directories, one per hierarchy.
    pub(super) dirs: Vec<PathBuf>,
    /// Controllers whose limit could not be set, and why.
    pub(super) refused: Vec<(Controller, String)>,
}

/// Prefix of the names of groups.
const PREFIX: &str = "vestal-";

/// Returns the name of an instance's groups.
pub(super) fn name(instance: &str) -> String {
    format!("{PREFIX}{instance}")
}

/// Returns the directories that the groups of an instance will have, so that they
/// can be recorded before they exist.
pub(super) fn planned_dirs(
    hierarchies: &Hierarchies,
    instance: &str,
    limits: &[LimitRequest],
) -> Vec<PathBuf> {
    let mut planned_dirs: Vec<PathBuf> = Vec::new();
    for (controller, _) in limits {
        if let Some(own) = hierarchies.own(*controller) {
            let dir = own.dir.join(name(instance));
            if !planned_dirs.contains(&dir) {
                planned_dirs.push(dir);
            }
        }
    }
    planned_dirs
}

/// Makes groups with these limits. A controller that fails is reported in
/// [`Groups::refused`], and its group is removed.
pub(super) fn make(hierarchies: &Hierarchies, instance: &str, limits: &[LimitRequest]) -> Groups {
    let mut groups = Groups::default();
    // A group left by a guest that ended by itself has outdated limits.
    for dir in planned_dirs(hierarchies, instance, limits) {
        fs::remove_dir(dir).ok();
    }
    for (controller, value) in limits {
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
    for dir in planned_dirs(hierarchies, instance, limits) {
        if !groups.dirs.contains(&dir) {
            fs::remove_dir(dir).ok();
        }
    }
    groups
}

fn limit(
    own: &OwnGroup,
    instance: &str,
    controller: Controller,
    value: u64,
) -> io::Result<PathBuf> {
    if own.version == CgroupVersion::Two {
        delegate(&own.dir, controller)?;
    }
    let dir = own.dir.join(name(instance));
    match fs::create_dir(&dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(with_path(&dir, &error));
        }
        _ => {}
    }
    for (file, text, needed) in settings(own.version, controller, value) {
        let path = dir.join(file);
        match fs::write(&path, text) {
            Err(error) if needed => return Err(with_path(&path, &error)),
            _ => {}
        }
    }
    check_memory(&dir, own.version, controller, value)?;
    Ok(dir)
}

/// Checks that the kernel accepted a memory limit; it rounds to pages.
fn check_memory(
    dir: &Path,
    version: CgroupVersion,
    controller: Controller,
    value: u64,
) -> io::Result<()> {
    if controller != Controller::Memory {
        return Ok(());
    }
    let path = dir.join(match version {
        CgroupVersion::One => "memory.limit_in_bytes",
        CgroupVersion::Two => "memory.max",
    });
    let text = fs::read_to_string(&path).map_err(|error| with_path(&path, &error))?;
    match text.trim().parse::<u64>() {
        Ok(found) if found <= value.saturating_add(PAGE) => Ok(()),
        _ => Err(io::Error::other(format!("{} is {} instead", path.display(), text.trim()))),
    }
}

/// Enables a controller for the children of a group (v2). The kernel refuses it
/// for a group that has processes, except for the root group.
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
    fs::write(&path, format!("+{}", controller.name())).map_err(|error| with_path(&path, &error))
}

/// Returns what to write for a limit: file, text, and whether a failure to write
/// it is an error.
fn settings(
    version: CgroupVersion,
    controller: Controller,
    value: u64,
) -> Vec<(&'static str, String, bool)> {
    // From thousandths of a CPU to microseconds per period.
    let quota = (value.saturating_mul(PERIOD) / 1000).max(1000);
    match (version, controller) {
        (CgroupVersion::One, Controller::Cpu) => vec![
            ("cpu.cfs_period_us", PERIOD.to_string(), true),
            ("cpu.cfs_quota_us", quota.to_string(), true),
        ],
        (CgroupVersion::Two, Controller::Cpu) => {
            vec![("cpu.max", format!("{quota} {PERIOD}"), true)]
        }
        // Swap is limited to the size of the memory, where the kernel accounts swap.
        // memsw must never be below the memory limit, so it is lifted first.
        (CgroupVersion::One, Controller::Memory) => vec![
            ("memory.memsw.limit_in_bytes", "-1".to_owned(), false),
            ("memory.limit_in_bytes", value.to_string(), true),
            ("memory.memsw.limit_in_bytes", value.saturating_mul(2).to_string(), false),
        ],
        (CgroupVersion::Two, Controller::Memory) => vec![
            ("memory.max", value.to_string(), true),
            ("memory.swap.max", value.to_string(), false),
        ],
        (_, Controller::Pids) => vec![("pids.max", value.to_string(), true)],
    }
}

/// Returns the file by which a process joins a group. In v1 that is
/// `tasks`: moving a single thread is cheaper than moving a process.
pub(in crate::backends) fn join_file(dir: &Path) -> PathBuf {
    let threads = dir.join("tasks");
    if threads.exists() { threads } else { dir.join("cgroup.procs") }
}

/// Removes empty groups; absent ones are not an error. Directories without the name of
/// this instance's groups are not touched.
pub(in crate::backends) async fn remove(instance: &str, dirs: &[PathBuf]) -> io::Result<()> {
    let name = name(instance);
    let deadline = tokio::time::Instant::now() + BUSY_FOR;
    for dir in dirs.iter().filter(|dir| dir.file_name().is_some_and(|found| *found == *name)) {
        loop {
            match remove_group(dir) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::NotFound => break,
                // The kernel releases the last process a moment after its end.
                Err(error)
                    if error.kind() == ErrorKind::ResourceBusy
                        && tokio::time::Instant::now() < deadline =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(with_path(dir, &error)),
            }
        }
    }
    Ok(())
}

/// Returns groups that contain no process and belong to none of the known
/// instances.
pub(super) fn stray_groups(hierarchies: &Hierarchies, known: &BTreeSet<String>) -> Vec<PathBuf> {
    let all = [Controller::Cpu, Controller::Memory, Controller::Pids];
    let own: BTreeSet<PathBuf> =
        all.into_iter().filter_map(|one| hierarchies.own(one)).map(|own| own.dir).collect();
    let is_stray = |dir: &PathBuf| {
        let name = dir.file_name().and_then(|name| name.to_str());
        let instance = name.and_then(|name| name.strip_prefix(PREFIX));
        instance.is_some_and(|instance| !known.contains(instance)) && is_empty_group(dir)
    };
    let mut found: Vec<PathBuf> =
        own.iter().flat_map(|dir| children(dir)).filter(is_stray).collect();
    found.sort();
    found
}

/// Returns whether a group and its children contain no process; false if that
/// cannot be read.
fn is_empty_group(dir: &Path) -> bool {
    fs::read_to_string(dir.join("cgroup.procs")).is_ok_and(|processes| processes.is_empty())
        && children(dir).all(|dir| is_empty_group(&dir))
}

/// Returns the children of a group.
fn children(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    groups.map(|entry| entry.path())
}

/// Removes a group and the children that its processes have made.
fn remove_group(dir: &Path) -> io::Result<()> {
    match fs::remove_dir(dir) {
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {
            for dir in children(dir) {
                remove_group(&dir).ok();
            }
            fs::remove_dir(dir)
        }
        other => other,
    }
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
#[path = "cgroups_tests.rs"]
mod tests;
