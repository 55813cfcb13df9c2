//! The privileges that processes of a sandbox have dropped.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]
#![allow(clippy::disallowed_methods, reason = "the variable is this test's own")]

mod support;

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use support::{By, TestSandbox, bytes};
use vestal_wire::{Bind, Network, Purpose, SandboxMount};

#[test]
fn capabilities_are_those_of_the_plan_and_can_never_be_more() {
    for by in By::all() {
        for mask in [0_u64, 0xfb] {
            let sandbox = TestSandbox::new(by);
            let mut plan = sandbox.plan("grep -E '^(Cap|NoNew)' /proc/self/status | tr -d '\\t'");
            plan.capabilities = mask;
            let expected = format!(
                "CapInh:{0:016x}\nCapPrm:{mask:016x}\nCapEff:{mask:016x}\nCapBnd:{mask:016x}\n\
                 CapAmb:{0:016x}\nNoNewPrivs:1\n",
                0
            );
            assert_eq!(sandbox.start(&plan).printed(), expected, "{by:?}");
        }
    }
}

/// A filter of one comparison: `mkdir` and its newer form are not permitted.
fn no_directories() -> Vec<u8> {
    let load_number = (0x20_u16, 0_u8, 0_u8, 0_u32);
    let jump = |number: i64, distance: u8| (0x15, distance, 0, u32::try_from(number).unwrap());
    let program = [
        load_number,
        #[cfg(target_arch = "x86_64")]
        jump(libc::SYS_mkdir, 2),
        #[cfg(not(target_arch = "x86_64"))]
        jump(libc::SYS_mkdirat, 2),
        jump(libc::SYS_mkdirat, 1),
        (0x06, 0, 0, 0x7fff_0000),
        (0x06, 0, 0, 0x0005_0000 | libc::EPERM.unsigned_abs()),
    ];
    program
        .iter()
        .flat_map(|(code, jt, jf, k)| {
            [&code.to_ne_bytes()[..], &[*jt, *jf], &k.to_ne_bytes()].concat()
        })
        .collect()
}

#[test]
fn filters_hold_for_everything_in_the_sandbox() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let mut plan = sandbox.plan(
            "grep -E '^Seccomp:' /proc/self/status | tr -d '\\t'; mkdir /tmp/d 2>&1 | grep -c \
             'not permitted'; echo x > /tmp/f && echo fine",
        );
        plan.filters = vec![no_directories().into()];
        assert_eq!(sandbox.start(&plan).printed(), "Seccomp:2\n1\nfine\n", "{by:?}");
    }
}

#[test]
fn no_more_processes_run_than_the_plan_allows() {
    for by in By::all() {
        let sandbox = TestSandbox::new(by);
        let mut plan = sandbox.plan(
            "grep -o 'processes  *[0-9][0-9]*' /proc/self/limits | tr -d ' '; \
             (for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done) 2>/dev/null; \
             set -- /proc/[0-9]*; test $# -le 8 && echo few || echo $#",
        );
        plan.max_processes = Some(8);
        assert_eq!(sandbox.start(&plan).printed(), "processes8\nfew\n", "{by:?}");
    }
}

/// If this variable is set, this program tries to connect from inside of a sandbox.
const NAME: &str = "VESTAL_TEST_SOCKET";

#[test]
fn an_abstract_socket_of_the_host_is_out_of_reach() {
    if let Ok(name) = std::env::var(NAME) {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let error = UnixStream::connect_addr(&address).err();
        println!("answer {:?}", error.and_then(|error| error.raw_os_error()));
        return;
    }
    for by in By::all() {
        let name = format!("vestal-stage-{}-{by:?}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        UnixStream::connect_addr(&address).unwrap();
        let sandbox = TestSandbox::new(by);
        let mut plan = sandbox.plan("");
        assert_eq!(plan.network, Network::Host);
        plan.mounts.push(SandboxMount::Bind(Bind {
            source: bytes(std::env::current_exe().unwrap()),
            target: bytes("/test"),
            read_only: true,
            recursive: false,
            shifted: false,
            identity: None,
            hidden: Vec::new(),
            public_only: false,
        }));
        plan.purpose = Purpose::Serve {
            arguments: ["/test", "--exact", "--nocapture"]
                .into_iter()
                .chain(["an_abstract_socket_of_the_host_is_out_of_reach"])
                .map(bytes)
                .collect(),
            environment: vec![bytes(format!("{NAME}={name}"))],
            record: bytes(sandbox.record()),
        };
        let printed = sandbox.start(&plan).printed();
        let expected = format!("answer {:?}", Some(libc::EPERM));
        assert!(printed.contains(&expected), "{by:?}: {printed}");
        drop(listener);
    }
}
