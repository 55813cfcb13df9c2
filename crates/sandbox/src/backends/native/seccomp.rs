//! System calls that nothing in a sandbox may make.
//!
//! Namespaces and missing capabilities refuse most of them anyway; this keeps
//! the code behind them, where kernels have had their holes, out of reach. They
//! are refused rather than deadly, so that programs which only try go on. The
//! programs for the kernel come from `seccompiler`, which Firecracker uses for
//! the same: it knows the shape that the kernel wants, and what is listed here
//! stays readable.
//!
//! Programs of another architecture than the machine's own (32-bit ones) are
//! ended at their first call: the numbers below mean other calls to them.

use std::collections::BTreeMap;

use minicbor::bytes::ByteVec;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use crate::backend::BackendError;

/// Calls that are refused, whatever is asked.
const REFUSED: &[i64] = &[
    // Mounts, and other ways to change what is seen of files.
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
    // Other namespaces.
    libc::SYS_setns,
    // Keys of the kernel are not in a namespace.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Programs in the kernel, and what helps to attack it.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The machine itself.
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

/// The same, for calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_uselib,
    libc::SYS__sysctl,
    libc::SYS_sysfs,
    libc::SYS_ustat,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// A call that the library does not know yet; its number is the same everywhere.
const OPEN_TREE_ATTR: i64 = 467;

/// What asks for a namespace.
const NAMESPACES: [u32; 7] = [
    libc::CLONE_NEWNS.cast_unsigned(),
    libc::CLONE_NEWCGROUP.cast_unsigned(),
    libc::CLONE_NEWUTS.cast_unsigned(),
    libc::CLONE_NEWIPC.cast_unsigned(),
    libc::CLONE_NEWUSER.cast_unsigned(),
    libc::CLONE_NEWPID.cast_unsigned(),
    libc::CLONE_NEWNET.cast_unsigned(),
];

/// The same for clocks. To `clone` the number is a signal.
const NEW_TIME: u32 = 0x80;

/// Requests to terminals that type for whoever sits at them.
const TYPING: [u32; 2] = [0x5412, 0x541c];

/// Networks that programs have a use for.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// How programs may ask to be run: as usual, as 32-bit ones or as on an old
/// kernel; or they ask how they are run. Anything else turns defences off.
const PERSONALITIES: [u32; 5] = [0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// Where the numbers of calls of the x32 architecture begin. They do the same as
/// others, under numbers that no list has.
const X32: u32 = 0x4000_0000;

/// Returns the programs for the kernel, in the order in which they are
/// installed.
pub(super) fn filters() -> Result<Vec<ByteVec>, BackendError> {
    let programs = programs().map_err(|error| BackendError::Io {
        action: "make the filters of system calls".to_owned(),
        source: std::io::Error::other(error),
    })?;
    Ok(programs.iter().map(|program| encode(program)).collect())
}

fn programs() -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let mut programs = vec![
        program(refused()?, libc::EPERM)?,
        // What it asks for is in memory, where a filter cannot look. Told that
        // there is no such call, libraries take the old one.
        program(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?,
        program(sockets()?, libc::EAFNOSUPPORT)?,
    ];
    if cfg!(target_arch = "x86_64") {
        programs.push(without_x32());
    }
    Ok(programs)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn refused() -> Result<Rules, seccompiler::BackendError> {
    let all = REFUSED.iter().chain(REFUSED_HERE);
    let mut rules: Rules = all.map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, any_of(0, NAMESPACES)?);
    let unshared = NAMESPACES.into_iter().chain([NEW_TIME]);
    rules.insert(libc::SYS_unshare, any_of(0, unshared)?);
    let typing = TYPING
        .into_iter()
        .map(|request| SeccompRule::new(vec![argument(1, SeccompCmpOp::Eq, request)?]));
    rules.insert(libc::SYS_ioctl, typing.collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_personality, vec![none_of(0, PERSONALITIES)?]);
    Ok(rules)
}

fn sockets() -> Result<Rules, seccompiler::BackendError> {
    let other = || none_of(0, FAMILIES.map(i32::cast_unsigned));
    Ok(BTreeMap::from([(libc::SYS_socket, vec![other()?]), (libc::SYS_socketpair, vec![other()?])]))
}

/// Returns rules that hold when any of the bits is set in an argument.
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

/// Returns a rule that holds when an argument is none of the values.
fn none_of(
    number: u8,
    values: impl IntoIterator<Item = u32>,
) -> Result<SeccompRule, seccompiler::BackendError> {
    let differs = |value: u32| argument(number, SeccompCmpOp::Ne, value);
    SeccompRule::new(values.into_iter().map(differs).collect::<Result<_, _>>()?)
}

/// Returns a condition on the low half of an argument: the kernel looks at no
/// more of any that is judged here, so that the other half must not matter.
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

/// Returns a program that knows no calls of x32.
fn without_x32() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let step = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    vec![
        step(LOAD, 0, 0),
        step(JUMP_IF_AT_LEAST, 1, X32),
        step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()),
    ]
}

/// Returns a program as the kernel has it in memory.
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
