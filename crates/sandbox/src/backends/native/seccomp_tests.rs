use super::*;

/// A call as a filter sees it.
#[derive(Debug, Clone, Copy)]
struct Call {
    number: u32,
    arch: u32,
    arguments: [u64; 6],
}

impl Call {
    fn new(number: i64, arguments: &[u64]) -> Self {
        let arch = match std::env::consts::ARCH {
            "x86_64" => 0xc000_003e,
            "aarch64" => 0xc000_00b7,
            other => panic!("{other}"),
        };
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        Self { number: u32::try_from(number).unwrap(), arch, arguments: all }
    }

    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.number,
            4 => self.arch,
            16.. => {
                let value = self.arguments[(offset as usize - 16) / 8];
                u32::try_from(if offset.is_multiple_of(8) {
                    value & 0xffff_ffff
                } else {
                    value >> 32
                })
                .unwrap()
            }
            other => panic!("nothing is at {other}"),
        }
    }
}

/// Runs a program as the kernel does.
fn interpret(program: &[u8], call: &Call) -> u32 {
    let steps: Vec<(u16, u8, u8, u32)> = program
        .chunks_exact(8)
        .map(|step| {
            let code = u16::from_ne_bytes([step[0], step[1]]);
            (code, step[2], step[3], u32::from_ne_bytes([step[4], step[5], step[6], step[7]]))
        })
        .collect();
    let (mut at, mut value) = (0, 0_u32);
    loop {
        let (code, jt, jf, k) = steps[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            0x20 => value = call.word(k),
            0x54 => value &= k,
            0x05 => at += k as usize,
            0x15 => at += jump(value == k),
            0x25 => at += jump(value > k),
            0x35 => at += jump(value >= k),
            0x06 => return k,
            other => panic!("no such step: {other:#x}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Refused(i32),
    Killed,
}

/// Returns the result of all filters: the strictest one counts.
fn judge(call: &Call) -> Verdict {
    let verdicts = filters().unwrap();
    let verdicts = verdicts.iter().map(|program| interpret(program, call));
    let strictest = verdicts.min_by_key(|action| action.cast_signed() & !0xffff).unwrap();
    match strictest & !0xffff {
        libc::SECCOMP_RET_ALLOW => Verdict::Allowed,
        libc::SECCOMP_RET_ERRNO => Verdict::Refused(i32::try_from(strictest & 0xffff).unwrap()),
        libc::SECCOMP_RET_KILL_PROCESS => Verdict::Killed,
        other => panic!("{other:#x}"),
    }
}

fn verdict(number: i64, arguments: &[u64]) -> Verdict {
    judge(&Call::new(number, arguments))
}

const EPERM: Verdict = Verdict::Refused(libc::EPERM);
const HIGH: u64 = 0xdead_beef << 32;

#[test]
fn listed_calls_are_denied_with_any_arguments() {
    for call in DENIED.iter().chain(DENIED_ON_THIS_ARCH) {
        assert_eq!(verdict(*call, &[]), EPERM, "{call}");
        assert_eq!(verdict(*call, &[u64::MAX; 6]), EPERM, "{call}");
    }
}

#[test]
fn calls_of_everyday_programs_are_allowed() {
    let calls = [
        libc::SYS_read,
        libc::SYS_openat,
        libc::SYS_execve,
        libc::SYS_mmap,
        libc::SYS_futex,
        libc::SYS_ptrace,
        libc::SYS_prctl,
        libc::SYS_seccomp,
        libc::SYS_fchownat,
        libc::SYS_setresuid,
        libc::SYS_statx,
        libc::SYS_memfd_create,
        libc::SYS_pidfd_open,
        libc::SYS_landlock_create_ruleset,
    ];
    for call in calls {
        assert_eq!(verdict(call, &[u64::MAX; 6]), Verdict::Allowed, "{call}");
    }
}

#[test]
fn processes_and_threads_are_made_but_no_namespaces() {
    let thread = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_THREAD;
    let thread = u64::from(thread.cast_unsigned());
    // The low byte is a signal number, and one has the bits of CLONE_NEWTIME.
    for flags in [u64::from(libc::SIGCHLD.cast_unsigned()), thread, 0x80] {
        assert_eq!(verdict(libc::SYS_clone, &[flags]), Verdict::Allowed, "{flags:#x}");
    }
    assert_eq!(verdict(libc::SYS_unshare, &[u64::from(libc::CLONE_FS as u32)]), Verdict::Allowed);
    for bit in NAMESPACES {
        for flags in [u64::from(bit), u64::from(bit) | thread, u64::from(bit) | HIGH] {
            assert_eq!(verdict(libc::SYS_clone, &[flags]), EPERM, "{flags:#x}");
            assert_eq!(verdict(libc::SYS_unshare, &[flags]), EPERM, "{flags:#x}");
        }
    }
    assert_eq!(verdict(libc::SYS_unshare, &[u64::from(NEW_TIME)]), EPERM);
    assert_eq!(verdict(libc::SYS_clone3, &[]), Verdict::Refused(libc::ENOSYS));
}

#[test]
fn input_cannot_be_injected_into_a_terminal() {
    for request in INPUT_INJECTION {
        assert_eq!(verdict(libc::SYS_ioctl, &[0, u64::from(request)]), EPERM);
        // The kernel ignores the high half.
        assert_eq!(verdict(libc::SYS_ioctl, &[0, u64::from(request) | HIGH]), EPERM);
    }
    for request in [0x5401_u64, 0x5413, 0x5414] {
        assert_eq!(verdict(libc::SYS_ioctl, &[0, request]), Verdict::Allowed, "{request:#x}");
    }
}

#[test]
fn only_common_socket_families_are_allowed() {
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        for family in SOCKET_FAMILIES {
            let family = u64::from(family.cast_unsigned());
            assert_eq!(verdict(call, &[family]), Verdict::Allowed, "{family}");
        }
        for family in [libc::AF_PACKET, libc::AF_ALG, libc::AF_VSOCK, libc::AF_KEY, 0, 44] {
            let family = u64::from(family.cast_unsigned());
            let refused = Verdict::Refused(libc::EAFNOSUPPORT);
            assert_eq!(verdict(call, &[family]), refused, "{family}");
            assert_eq!(verdict(call, &[family | HIGH]), refused, "{family}");
        }
    }
}

#[test]
fn protections_cannot_be_turned_off() {
    const ADDR_NO_RANDOMIZE: u64 = 0x4_0000;
    const READ_IMPLIES_EXEC: u64 = 0x40_0000;
    for value in PERSONALITIES {
        assert_eq!(verdict(libc::SYS_personality, &[u64::from(value)]), Verdict::Allowed);
    }
    for value in [ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, ADDR_NO_RANDOMIZE | HIGH] {
        assert_eq!(verdict(libc::SYS_personality, &[value]), EPERM, "{value:#x}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn numbers_of_x32_are_no_way_around() {
    for call in [libc::SYS_mount, libc::SYS_read, libc::SYS_unshare] {
        let mut x32 = Call::new(call, &[u64::from(libc::CLONE_NEWUSER.cast_unsigned())]);
        x32.number |= FIRST_X32_CALL;
        assert_eq!(judge(&x32), Verdict::Refused(libc::ENOSYS), "{call}");
    }
}

#[test]
fn programs_of_another_architecture_are_no_way_around() {
    let mut other = Call::new(libc::SYS_read, &[]);
    other.arch = 0x4000_0003;
    assert_eq!(judge(&other), Verdict::Killed);
}

#[test]
fn the_kernel_takes_the_filters_and_does_as_they_say() {
    // Filters apply to one thread and end with it.
    let seen = std::thread::spawn(|| {
        for program in programs().unwrap() {
            seccompiler::apply_filter(&program).unwrap();
        }
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let moved =
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), None);
        let packet = rustix::net::socket(
            rustix::net::AddressFamily::from_raw(17),
            rustix::net::SocketType::DGRAM,
            None,
        );
        let local = rustix::net::socket(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            None,
        );
        // Threads and processes can still be made.
        let child = std::process::Command::new("true").status().unwrap();
        let thread = std::thread::spawn(|| 7).join().unwrap();
        (moved.unwrap_err(), packet.unwrap_err(), local.is_ok(), child.success(), thread)
    });
    let expected = (rustix::io::Errno::PERM, rustix::io::Errno::AFNOSUPPORT, true, true, 7);
    assert_eq!(seen.join().unwrap(), expected);
}
