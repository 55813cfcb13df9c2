//! What the numbers depend on.

use std::fs;

/// Returns facts about this machine, for people who compare numbers.
pub fn facts() -> Vec<(&'static str, String)> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or_else(|| "unknown".to_owned(), |(_, model)| model.to_owned());
    let load: Vec<_> = read("/proc/loadavg").split(' ').take(3).map(str::to_owned).collect();
    vec![
        ("cores", format!("{cores} × {model}")),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("load", load.join(" ")),
    ]
}
