//! What many sandboxes weigh together.

use std::fs;

use super::first_process;
use crate::Result;
use crate::crowd;
use crate::fixture::ContractBench;
use crate::workload::stateless;
use vestal_bench::program::proportional;
use vestal_bench::report::{Bar, BenchRow, Figure};

/// What the kernel itself holds on to: objects, stacks, page tables, counters of
/// each processor, and files in memory. Caches that it gives back are not in it.
const HELD: [&str; 5] = ["SUnreclaim:", "KernelStack:", "PageTables:", "Percpu:", "Shmem:"];

/// What the kernel of this machine holds on to.
#[derive(Debug)]
pub(super) struct Host(u64);

impl Host {
    pub(super) fn now() -> Result<Self> {
        let counted = fs::read_to_string("/proc/meminfo")?;
        let value = |line: &str| {
            let (name, value) = line.split_once(char::is_whitespace)?;
            let value = value.trim().strip_suffix(" kB")?;
            HELD.contains(&name).then(|| value.parse::<u64>().ok()).flatten()
        };
        Ok(Self(counted.lines().filter_map(value).sum::<u64>() << 10))
    }
}

/// Returns the name of the row.
pub(super) fn name(sandboxes: usize) -> String {
    format!("memory of {sandboxes} sandboxes alive at once")
}

/// Weighs the sandboxes of a crowd: what their processes take, each page shared
/// out among those who have it, and what the kernel has needed for them. Each
/// still answers.
pub(super) async fn measure(
    bench: &ContractBench,
    sandboxes: usize,
    before: &Host,
) -> Result<BenchRow> {
    let mut bytes = Host::now()?.0.saturating_sub(before.0);
    let mut processes = 0;
    for number in 0..sandboxes {
        let sandbox = bench.sandbox(&crowd::task(number)).await?;
        for pid in family(first_process(bench, &sandbox).await?)? {
            bytes += proportional(pid)?;
            processes += 1;
        }
    }
    for number in 0..sandboxes {
        let sandbox = bench.sandbox(&crowd::task(number)).await?;
        let printed = stateless(&sandbox, &format!("echo {number}")).await?;
        if printed.stdout.text() != format!("{number}\n") {
            return Err(format!("sandbox {number} does not answer").into());
        }
    }
    let row = BenchRow::single(bench.label(&name(sandboxes)), Figure::size(bytes));
    Ok(row
        .bar(Bar::AtMost(Figure::Mebibytes(2048.0)))
        .note(format!("{processes} processes, and what the kernel holds on to for them")))
}

/// Returns a process and all that come from it.
fn family(first: u32) -> Result<Vec<u32>> {
    let mut family = vec![first];
    let mut next = 0;
    while let Some(pid) = family.get(next) {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        for child in children.split_whitespace() {
            family.push(child.parse()?);
        }
        next += 1;
    }
    Ok(family)
}
