//! Writes under conditions that only a process of their own can be put in.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use vestal_wire::FileOp;

use super::*;
use crate::files::testing::TestDir;

const MODULE: &str = "files::write::child_tests";

/// Runs an ignored test of this program in a child prepared by `prepare`.
/// Returns whether the child could be prepared; its failure is this test's.
fn in_child(prepare: fn() -> io::Result<()>, test: &str) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", &format!("{MODULE}::{test}")]);
    // SAFETY: what is prepared are plain system calls, which are safe after a fork.
    unsafe { command.pre_exec(prepare) };
    let Ok(output) = command.output() else {
        return false;
    };
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    true
}

fn done(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn unshare_mounts() -> io::Result<()> {
    // SAFETY: the call takes no pointers and only changes the child.
    done(unsafe { libc::unshare(libc::CLONE_NEWNS) })
}

fn limit_file_size() -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: 65_536, rlim_max: 65_536 };
    // SAFETY: both calls only change the child; the pointer is valid for the call.
    done(unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit)
    })
}

fn write_to(test_dir: &TestDir, path: &str, content: &[u8]) -> Result<FileReply, Fault> {
    let op = FileOp::Write {
        path: path.as_bytes().to_vec().into(),
        create: CreateMode::Any,
        parents: false,
        mode: None,
        expect: None,
    };
    test_dir.perform(op, content).map(|(reply, _)| reply)
}

#[test]
fn a_mount_point_is_written_in_place() {
    // Who may not mount cannot meet a mount point of its own making.
    let ran = in_child(unshare_mounts, "child_writes_a_mount_point");
    assert!(ran || !crate::files::testing::is_root());
}

#[test]
#[ignore = "runs as a child of a_mount_point_is_written_in_place"]
fn child_writes_a_mount_point() {
    let test_dir = TestDir::new();
    let target = test_dir.put("target", b"old content");
    let source = test_dir.put("source", b"the source");
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
    mount_bind(&source, &target).unwrap();
    let written = write_to(&test_dir, "target", b"new").unwrap();
    unmount(&target, UnmountFlags::empty()).unwrap();
    let FileReply::Written { created: false, in_place: true, .. } = written else {
        panic!("{written:?}");
    };
    assert_eq!(test_dir.get("source"), b"new");
    assert_eq!(test_dir.get("target"), b"old content");
    assert_eq!(test_dir.names(), ["source", "target"]);
}

#[test]
fn a_file_that_cannot_grow_leaves_the_old_one_and_no_litter() {
    assert!(in_child(limit_file_size, "child_writes_more_than_it_may"));
}

#[test]
#[ignore = "runs as a child of a_file_that_cannot_grow_leaves_the_old_one_and_no_litter"]
fn child_writes_more_than_it_may() {
    let test_dir = TestDir::new();
    test_dir.put("file", b"old");
    test_dir.put("linked", b"old");
    std::fs::hard_link(test_dir.path("linked"), test_dir.path("other")).unwrap();
    for path in ["file", "linked", "none"] {
        let fault = write_to(&test_dir, path, &vec![1; 200_000]).unwrap_err();
        assert_eq!(fault.code, FaultCode::NoSpace);
    }
    assert_eq!((test_dir.get("file"), test_dir.get("linked")), (b"old".to_vec(), b"old".to_vec()));
    assert_eq!(test_dir.names(), ["file", "linked", "other"]);
}
