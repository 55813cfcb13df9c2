//! Files and devices that are the kernel's.

use crate::cell::Cell;

/// Files below `/proc` that change the machine.
const SETTINGS: [&str; 12] = [
    "sys/kernel/core_pattern",
    "sys/kernel/modprobe",
    "sys/kernel/hostname",
    "sys/kernel/panic",
    "sys/kernel/randomize_va_space",
    "sys/fs/protected_symlinks",
    "sys/vm/drop_caches",
    "sys/vm/overcommit_memory",
    "sys/net/ipv4/ip_forward",
    "sysrq-trigger",
    "irq/default_smp_affinity",
    "fs/ext4",
];

/// Files below `/proc` that report the machine's memory and doings.
const SECRETS: [&str; 7] =
    ["kcore", "kmsg", "keys", "timer_list", "sched_debug", "latency_stats", "vmallocinfo"];

/// What programs expect in `/dev`.
const HARMLESS: [&str; 15] = [
    "console", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
    "stdout", "tty", "urandom", "zero",
];

/// Returns attempts on those of the files that this machine has.
fn there(verb: &str, names: &[&str]) -> Vec<String> {
    let paths = names.iter().map(|name| format!("/proc/{name}"));
    let there: Vec<String> = paths
        .filter(|path| std::fs::symlink_metadata(path).is_ok_and(|file| file.is_file()))
        .collect();
    there.iter().map(|path| format!("{verb}={path}")).collect()
}

pub(crate) async fn settings_of_the_kernel_cannot_be_changed(cell: &Cell) {
    let attempts = there("write", &SETTINGS);
    assert!(attempts.len() >= 5, "{attempts:?}");
    let attempts: Vec<&str> = attempts.iter().map(String::as_str).collect();
    let outcomes = cell.attempt(&attempts).await;
    let expected = if cell.is_enclosed() {
        Vec::new()
    } else {
        outcomes.0.keys().map(String::as_str).collect()
    };
    assert_eq!(outcomes.reached(), expected, "{outcomes:?}");
    let ways = ["remount-writable=/proc/sys", "unmount=/proc/sys", "unmount=/proc/sysrq-trigger"];
    if cell.is_enclosed() {
        cell.expect_refused(&ways).await;
    }
}

pub(crate) async fn memory_and_logs_of_the_kernel_cannot_be_read(cell: &Cell) {
    let attempts = there("read", &SECRETS);
    assert!(!attempts.is_empty());
    let attempts: Vec<&str> = attempts.iter().map(String::as_str).collect();
    let outcomes = cell.attempt(&attempts).await;
    if cell.is_enclosed() {
        assert_eq!(outcomes.reached(), Vec::<&str>::new(), "{outcomes:?}");
    } else {
        assert!(!outcomes.reached().is_empty(), "{outcomes:?}");
    }
}

pub(crate) async fn there_are_no_devices_but_the_harmless_ones(cell: &Cell) {
    let printed = cell.run("ls -A /dev").await;
    let strange: Vec<&str> = printed.lines().filter(|name| !HARMLESS.contains(name)).collect();
    assert_eq!(strange, Vec::<&str>::new());
    assert!(printed.lines().any(|name| name == "null"), "{printed}");
    assert_eq!(cell.run("ls -d /sys/* 2> /dev/null").await, "");
}

pub(crate) async fn devices_cannot_be_made(cell: &Cell) {
    let dir = if cell.is_enclosed() {
        "/workspace".to_owned()
    } else {
        cell.fixture.user_home().display().to_string()
    };
    cell.expect_refused(&[
        &format!("make-device={dir}/null"),
        &format!("make-block-device={dir}/loop"),
    ])
    .await;
}
