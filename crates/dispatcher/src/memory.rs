//! How many workers the memory of this host has room for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vestal_config::{ConfigError, Settings, keys};

/// What a worker may take: itself, and a little of what it runs.
const PER_WORKER: u64 = 128 * 1024 * 1024;

/// Returns how many more workers a host has room for, where it can tell.
pub type Room = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// Returns what says how many more workers this host has room for, where that bounds
/// them: nobody has set how many there may be.
pub fn memory_room(settings: &Settings) -> Result<Option<Room>, ConfigError> {
    let set = settings.get(&keys::KANBAN_MAX_IN_PROGRESS_PER_HOST)?.value;
    Ok(set.is_auto().then(|| Arc::new(room) as Room))
}

/// Returns how many more workers there is room for; none, where the system does
/// not say how much memory is available.
fn room() -> Option<u64> {
    let host = available(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let within = groups.lines().filter_map(|line| left_in(line, Path::new("/sys/fs/cgroup"))).min();
    Some(within.map_or(host, |within| within.min(host)) / PER_WORKER)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns what the control groups of a line of `/proc/self/cgroup` leave: of the
/// group and of all it is in, the least.
fn left_in(line: &str, mounted: &Path) -> Option<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?.trim_start_matches('/'));
    let (base, limit, usage) = match controllers {
        "" => (mounted.to_owned(), "memory.max", "memory.current"),
        "memory" => (mounted.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
        _ => return None,
    };
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let left = |dir: &Path| {
        let (limit, usage) = (number(dir.join(limit))?, number(dir.join(usage))?);
        let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
        // Files that nobody reads any more are dropped when memory is needed.
        let idle = stat.lines().find_map(|line| line.strip_prefix("inactive_file "));
        let idle = idle.and_then(|idle| idle.trim().parse().ok()).unwrap_or(0);
        Some(limit.saturating_sub(usage.saturating_sub(idle)))
    };
    let dir = base.join(group);
    dir.ancestors().take_while(|dir| dir.starts_with(&base)).filter_map(left).min()
}

#[cfg(test)]
mod tests {
    use vestal_config::{Environment, Home};

    use super::*;

    #[test]
    fn what_is_available_is_what_the_system_says() {
        let meminfo = "MemTotal: 4000 kB\nMemFree:  10 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(available(meminfo), Some(2048 * 1024));
        assert_eq!(available("MemTotal: 4000 kB\n"), None);
    }

    #[test]
    fn a_control_group_counts_with_all_it_is_in() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let group = |dir: &Path, limit: &str, usage: &str| {
            fs::write(dir.join("memory.max"), limit).unwrap();
            fs::write(dir.join("memory.current"), usage).unwrap();
        };
        group(&root.path().join("a"), "1000\n", "400\n");
        group(&inner, "max\n", "100\n");
        assert_eq!(left_in("0::/a/b", root.path()), Some(600));
        fs::write(root.path().join("a/memory.stat"), "anon 5\ninactive_file 300\n").unwrap();
        assert_eq!(left_in("0::/a/b", root.path()), Some(900));
        group(&inner, "150\n", "100\n");
        assert_eq!(left_in("0::/a/b", root.path()), Some(50));
        assert_eq!(left_in("3:cpu,cpuacct:/a/b", root.path()), None);
    }

    #[test]
    fn memory_bounds_a_host_unless_a_number_is_set() {
        let bounded = |config: &str| {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("config.yaml"), config).unwrap();
            let settings = Settings::load(
                &vestal_config::schema(),
                Home::at(dir.path()),
                Environment::default(),
                Vec::new(),
            );
            memory_room(&settings).unwrap().is_some()
        };
        assert!(bounded("") && bounded("kanban: {max_in_progress_per_host: auto}"));
        assert!(!bounded("kanban: {max_in_progress_per_host: 9}"));
        assert!(!bounded("kanban: {max_in_progress_per_host: none}"));
    }
}
