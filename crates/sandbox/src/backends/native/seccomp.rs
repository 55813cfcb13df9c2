//! The seccomp filters: system calls that no process in a sandbox may make.
//!
//! Namespaces and dropped capabilities already deny most of them. The filters also
//! keep the kernel code behind them out of reach, where vulnerabilities have been
//! found. A denied call returns an error instead of killing the process, so that
//! programs that only try it continue. `seccompiler`, which Firecracker uses as
//! well, generates the BPF programs.
//!
//! Programs of another architecture (32-bit ones) are killed at their first call:
//! the same numbers mean other calls there.

use std::collections::BTreeMap;

use minicbor::bytes::ByteVec;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use crate::backend::BackendError;

/// Calls that are denied with any arguments.
const DENIED: &[i64] = &[
    // Mounts and other changes of the view of files.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    // Namespaces.
    libc::SYS_setns,
    // The kernel's keyrings, which have no namespace.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // BPF and other frequent targets of attacks.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The machine as a whole.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
];

/// Denied calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
const DENIED_ON_THIS_ARCH: &[i64] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_uselib,
    libc::SYS__sysctl,
    libc::SYS_sysfs,
    libc::SYS_ustat,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_ON_THIS_ARCH: &[i64] = &[];

/// A call that `libc` does not know yet; its number is the same on all architectures.
const OPEN_TREE_ATTR: i64 = 467;

/// Flags of `clone` and `unshare` that make a namespace.
const NAMESPACES: [u32; 7] = [
    libc::CLONE_NEWNS.cast_unsigned(),
    libc::CLONE_NEWCGROUP.cast_unsigned(),
    libc::CLONE_NEWUTS.cast_unsigned(),
    libc::CLONE_NEWIPC.cast_unsigned(),
    libc::CLONE_NEWUSER.cast_unsigned(),
    libc::CLONE_NEWPID.cast_unsigned(),
    libc::CLONE_NEWNET.cast_unsigned(),
];

/// `CLONE_NEWTIME` of `unshare`. In `clone`, these bits are part of the signal number.
const NEW_TIME: u32 = 0x80;

/// `TIOCSTI` and `TIOCLINUX`: terminal requests that inject input.
const INPUT_INJECTION: [u32; 2] = [0x5412, 0x541c];

/// Allowed socket families.
const SOCKET_FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Allowed personalities: Linux, 32-bit, old kernel versions, and the query. Others
/// turn off protections such as address space randomization.
const PERSONALITIES: [u32; 5] = [0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// The first call number of x32, which reaches the same calls by other numbers.
const FIRST_X32_CALL: u32 = 0x4000_0000;

/// Returns the BPF programs in the order of their installation.
pub(in crate::backends) fn filters() -> Result<Vec<ByteVec>, BackendError> {
    let programs = programs().map_err(|error| BackendError::Io {
        action: "generate the seccomp filters".to_owned(),
        source: std::io::Error::other(error),
    })?;
    Ok(programs.iter().map(|program| encode(program)).collect())
}

fn programs() -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let mut programs = vec![
        program(denied_calls()?, libc::EPERM)?,
        // The flags of clone3 are in memory, which a filter cannot read. After ENOSYS,
        // libraries fall back to clone.
        program(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?,
        program(denied_sockets()?, libc::EAFNOSUPPORT)?,
    ];
    if cfg!(target_arch = "x86_64") {
        programs.push(deny_x32());
    }
    Ok(programs)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn denied_calls() -> Result<Rules, seccompiler::BackendError> {
    let all = DENIED.iter().chain(DENIED_ON_THIS_ARCH);
    let mut rules: Rules = all.map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, any_of(0, NAMESPACES)?);
    let unshared = NAMESPACES.into_iter().chain([NEW_TIME]);
    rules.insert(libc::SYS_unshare, any_of(0, unshared)?);
    let injection = INPUT_INJECTION
        .into_iter()
        .map(|request| SeccompRule::new(vec![argument(1, SeccompCmpOp::Eq, request)?]));
    rules.insert(libc::SYS_ioctl, injection.collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_personality, vec![none_of(0, PERSONALITIES)?]);
    Ok(rules)
}

fn denied_sockets() -> Result<Rules, seccompiler::BackendError> {
    let other = || none_of(0, SOCKET_FAMILIES.map(i32::cast_unsigned));
    Ok(BTreeMap::from([(libc::SYS_socket, vec![other()?]), (libc::SYS_socketpair, vec![other()?])]))
}

/// Returns rules that match if any of the bits is set in an argument.
fn any_of(
    number: u8,
    bits: impl IntoIterator<Item = u32>,
) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let rule = |bit: u32| {
        let set = SeccompCmpOp::MaskedEq(u64::from(bit));
        SeccompRule::new(vec![argument(number, set, bit)?])
    };
    bits.into_iter().map(rule).collect()
}

/// Returns a rule that matches if an argument is none of the values.
fn none_of(
    number: u8,
    values: impl IntoIterator<Item = u32>,
) -> Result<SeccompRule, seccompiler::BackendError> {
    let differs = |value: u32| argument(number, SeccompCmpOp::Ne, value);
    SeccompRule::new(values.into_iter().map(differs).collect::<Result<_, _>>()?)
}

/// Returns a condition on the low 32 bits of an argument. The kernel ignores the high
/// bits of all arguments that are checked here.
fn argument(
    number: u8,
    operator: SeccompCmpOp,
    value: u32,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(number, SeccompCmpArgLen::Dword, operator, u64::from(value))
}

fn program(rules: Rules, errno: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// Returns a program that denies all x32 calls.
fn deny_x32() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let step = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    vec![
        step(LOAD, 0, 0),
        step(JUMP_IF_AT_LEAST, 1, FIRST_X32_CALL),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()),
    ]
}

/// Returns a program in the kernel's binary format.
fn encode(program: &[sock_filter]) -> ByteVec {
    let step = |step: &sock_filter| {
        let [code_0, code_1] = step.code.to_ne_bytes();
        let [k_0, k_1, k_2, k_3] = step.k.to_ne_bytes();
        [code_0, code_1, step.jt, step.jf, k_0, k_1, k_2, k_3]
    };
    program.iter().flat_map(step).collect::<Vec<u8>>().into()
}

#[cfg(test)]
#[path = "seccomp_tests.rs"]
mod tests;
