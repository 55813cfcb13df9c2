//! Places that are not read: what they hold is no text, or is somebody's secret.

use std::path::{Component, Path};

/// Whether a path may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools) enum Readable {
    Yes,
    /// It may not, and this is why.
    No(&'static str),
}

/// Files of a process that show its memory, environment or arguments.
const OF_PROCESSES: &[&str] = &[
    "auxv",
    "cmdline",
    "environ",
    "fd",
    "fdinfo",
    "map_files",
    "maps",
    "mem",
    "numa_maps",
    "pagemap",
    "smaps",
    "smaps_rollup",
    "stack",
    "syscall",
];

/// Files of the kernel that show memory or never end.
const OF_THE_KERNEL: &[&str] = &["kcore", "kmsg", "kpagecount", "kpageflags"];

/// Reports whether a path, behind all links, may be read.
pub(in crate::tools) fn readable(path: &Path) -> Readable {
    let names: Vec<&str> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => name.to_str().or(Some("?")),
            _ => None,
        })
        .collect();
    match names[..] {
        ["dev", "shm", _, ..] => Readable::Yes,
        ["dev", ..] => Readable::No("devices are not read as files"),
        ["proc", name] if OF_THE_KERNEL.contains(&name) => {
            Readable::No("it shows the kernel's memory")
        }
        ["proc", _, "task", _, name, ..] | ["proc", _, name, ..]
            if OF_PROCESSES.contains(&name) =>
        {
            Readable::No("it shows the memory, environment or arguments of a process")
        }
        _ => Readable::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_the_insides_of_processes_are_not_read() {
        for path in [
            "/dev/zero",
            "/dev/fd/3",
            "/dev",
            "/proc/self/environ",
            "/proc/1/cmdline",
            "/proc/12/task/13/environ",
            "/proc/self/fd/0",
            "/proc/self/mem",
            "/proc/kcore",
        ] {
            assert!(matches!(readable(Path::new(path)), Readable::No(_)), "{path}");
        }
    }

    #[test]
    fn other_files_are_read() {
        for path in ["/proc/cpuinfo", "/proc/self/status", "/dev/shm/x", "/srv/dev/null", "/devel"]
        {
            assert_eq!(readable(Path::new(path)), Readable::Yes, "{path}");
        }
    }
}
