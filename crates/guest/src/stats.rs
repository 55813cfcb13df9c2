//! Resource usage of the sandbox, from `/proc`.

use std::fs;

use vestal_wire::SandboxStats;

use crate::process::tree;

/// Adds up the resources of all processes below these supervisors. The
/// supervisors themselves are not counted.
pub(crate) fn collect(supervisors: &[u32], log_bytes: u64) -> SandboxStats {
    let own = ProcessUsage::of(std::process::id()).unwrap_or_default();
    let mut stats = SandboxStats {
        processes: 0,
        memory_bytes: 0,
        // Processes that ended are counted where they were reaped: in a shell, a
        // supervisor or, if their supervisor has ended too, here.
        cpu_ms: own.reaped_cpu_ms,
        log_bytes,
        guest_bytes: own.memory_bytes,
    };
    for supervisor in supervisors {
        stats.cpu_ms += ProcessUsage::of(*supervisor).map_or(0, |usage| usage.reaped_cpu_ms);
        for usage in tree::descendants(*supervisor).into_iter().filter_map(ProcessUsage::of) {
            stats.processes += 1;
            stats.memory_bytes += usage.memory_bytes;
            stats.cpu_ms += usage.cpu_ms + usage.reaped_cpu_ms;
        }
    }
    stats
}

#[derive(Debug, Default)]
struct ProcessUsage {
    cpu_ms: u64,
    reaped_cpu_ms: u64,
    memory_bytes: u64,
}

impl ProcessUsage {
    fn of(pid: u32) -> Option<Self> {
        let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&line, rustix::param::clock_ticks_per_second(), page_size())
    }

    fn parse(line: &[u8], ticks_per_second: u64, page: u64) -> Option<Self> {
        // The program's name, in parentheses, may contain anything.
        let after = line.iter().rposition(|byte| *byte == b')')? + 1;
        let text = std::str::from_utf8(line.get(after..)?).ok()?;
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let millis = |ticks: u64| ticks.saturating_mul(1000) / ticks_per_second.max(1);
        Some(Self {
            cpu_ms: millis(number(11)? + number(12)?),
            reaped_cpu_ms: millis(number(13)? + number(14)?),
            memory_bytes: number(21)?.saturating_mul(page),
        })
    }
}

fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_behind_any_program_name() {
        let line = b"7 (a) b (c)) R 1 2 3 0 -1 0 0 0 0 0 100 50 30 20 20 0 1 0 4711 9999 5 0 0 0 0";
        let usage = ProcessUsage::parse(line, 100, 4096).unwrap();
        assert_eq!((usage.cpu_ms, usage.reaped_cpu_ms, usage.memory_bytes), (1500, 500, 20480));
    }

    #[test]
    fn the_guest_itself_is_not_counted() {
        let stats = collect(&[], 17);
        assert_eq!(stats.log_bytes, 17);
        assert!(stats.guest_bytes > 0);
    }
}
