//! Calls of the kernel that a job has no business with.

use crate::cell::Cell;

pub(crate) async fn mounts_cannot_be_changed(cell: &Cell) {
    let outcomes = cell
        .attempt_apart(&[
            "mount-memory=/tmp",
            "mount-processes=/tmp",
            "mount-bind=/tmp",
            "mount-overlay=/tmp",
            "remount-writable=/proc",
            "mount-attributes=/proc",
            "mount-move=/proc",
            "filesystem-open=tmpfs",
            "filesystem-pick=/proc",
            "tree-clone=/",
            "unmount=/proc",
            "change-root=/tmp",
            "pivot=/tmp",
        ])
        .await;
    cell.judge(&outcomes);
}

pub(crate) async fn namespaces_can_be_neither_made_nor_entered(cell: &Cell) {
    const KINDS: [&str; 8] = ["user", "mount", "pid", "net", "ipc", "uts", "cgroup", "time"];
    let make = |how: &str| KINDS.map(|kind| format!("{how}={kind}"));
    let enter =
        ["mnt", "pid", "net", "ipc", "uts"].map(|kind| format!("enter=/proc/self/ns/{kind}"));
    let attempts: Vec<String> = make("unshare").into_iter().chain(enter).collect();
    let attempts: Vec<&str> = attempts.iter().map(String::as_str).collect();
    cell.expect_refused(&attempts).await;
    // A flag of its own tells this kind from a signal, and only the newest call has it.
    let attempts: Vec<String> = make("clone").into_iter().chain(make("clone3")).collect();
    let wanted = |attempt: &&str| *attempt != "clone=time";
    let attempts: Vec<&str> = attempts.iter().map(String::as_str).filter(wanted).collect();
    cell.expect_refused(&attempts).await;
}

pub(crate) async fn calls_that_widen_the_kernels_reach_are_refused(cell: &Cell) {
    cell.expect_refused(&[
        "bpf",
        "fault-handler",
        "performance",
        "ring",
        "open-by-handle=.",
        "watch-files",
        "strange-personality",
    ])
    .await;
}

pub(crate) async fn calls_that_rule_the_machine_are_refused(cell: &Cell) {
    cell.expect_refused(&[
        "load-kernel",
        "load-module",
        "unload-module",
        "restart-machine",
        "swap",
        "set-clock",
        "account",
        "quota",
        "kernel-log",
        "ports",
    ])
    .await;
}

pub(crate) async fn keys_of_the_kernel_are_out_of_reach(cell: &Cell) {
    cell.expect_refused(&["add-key", "request-key", "key-control"]).await;
}

pub(crate) async fn nothing_is_typed_into_terminals(cell: &Cell) {
    cell.expect_refused(&["type-ahead", "type-ahead-disguised", "console-paste"]).await;
}

pub(crate) async fn other_ways_into_the_kernel_are_closed(cell: &Cell) {
    cell.expect_refused(&["old-door", "other-numbers"]).await;
}
