//! Where the control groups of this process are.

use std::path::{Path, PathBuf};

/// What a control group can limit here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backends::native) enum Controller {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Processes and threads.
    Pids,
}

impl Controller {
    /// Returns the kernel's name for it.
    pub(in crate::backends::native) fn name(self) -> &'static str {
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
pub(in crate::backends::native) struct Hierarchies {
    one: Vec<(String, PathBuf)>,
    two: Option<PathBuf>,
}

impl Hierarchies {
    /// Returns those of this process. Where nothing can be read there are none.
    pub(in crate::backends::native) fn of_this_process() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
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
    pub(in crate::backends::native) fn may_limit(&self, controller: Controller) -> bool {
        self.own(controller).is_some_and(|own| {
            let writable = rustix::fs::access(&own.dir, rustix::fs::Access::WRITE_OK).is_ok();
            let read = |file: &str| std::fs::read_to_string(own.dir.join(file));
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
    let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let group = Hierarchies::parse(&own, &mounts).own(Controller::Memory)?;
    let file = match group.version {
        Version::One => "memory.oom_control",
        Version::Two => "memory.events",
    };
    kills_in(&std::fs::read_to_string(group.dir.join(file)).ok()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_controller_is_found_in_the_hierarchy_it_is_mounted_in() {
        let own = "9:name=systemd:/\n8:pids:/\n4:memory:/job/7\n1:cpu,cpuacct:/\n0::/\n";
        let mounts = "\
            31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw shared:3 - cgroup cgroup rw,memory\n\
            39 31 0:36 / /odd\\040place rw - cgroup cgroup rw,pids\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = Hierarchies::parse(own, mounts);
        let at = |dir: &str| Some(Own { version: Version::One, dir: dir.into() });
        assert_eq!(found.own(Controller::Cpu), at("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(found.own(Controller::Memory), at("/sys/fs/cgroup/memory/job/7"));
        assert_eq!(found.own(Controller::Pids), at("/odd place"));
    }

    #[test]
    fn kills_for_want_of_memory_are_read_from_either_interface() {
        assert_eq!(kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(kills_in("low 0\noom 2\noom_kill 1\noom_group_kill 9\n"), Some(1));
        assert_eq!(kills_in("oom_kill_disable 0\n"), None);
    }

    #[test]
    fn one_hierarchy_serves_all_and_a_group_outside_of_it_none() {
        let mounts = "29 1 0:26 /docker/a /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n";
        let found = Hierarchies::parse("0::/docker/a/b\n", mounts);
        for controller in [Controller::Cpu, Controller::Memory, Controller::Pids] {
            let expected = Own { version: Version::Two, dir: "/sys/fs/cgroup/b".into() };
            assert_eq!(found.own(controller), Some(expected));
        }
        for outside in ["0::/../elsewhere\n", "0::/other\n", "", "garbage"] {
            assert_eq!(Hierarchies::parse(outside, mounts).own(Controller::Cpu), None);
        }
        assert_eq!(Hierarchies::parse("0::/\n", "").own(Controller::Cpu), None);
    }
}
