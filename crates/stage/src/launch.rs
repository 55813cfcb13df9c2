//! `launch`: starts a program that builds a container around a guest, and waits until
//! the guest listens.
//!
//! Two processes cooperate. The one that was started waits, with the lock that the
//! host handed to it. The other one leads a session of its own, in which everything
//! stays that the program starts outside of the container, and becomes the program. So
//! what it leaves behind can be found by its session.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process_group, pidfd_send_signal, waitpid,
};
use rustix::thread::set_no_new_privs;
use vestal_wire::RuntimeLaunch;

use crate::failpoint::failpoint;
use crate::failure::{BuildStep, ReportedFailure, StepFailure, failed, failed_at, quoted};
use crate::program::{self, DescriptorOptions};
use crate::record::{describe_process, join_cgroups, parent, write_record};
use crate::sys::{self, Child, Cloned, clone};

/// Most that is kept of what the program prints.
const MAX_OUTPUT: u64 = 16 << 10;

/// Pause between two attempts to reach the guest. The end of the program ends it early.
const PAUSE: Duration = Duration::from_millis(3);

/// Most processes between the guest and the program.
const MAX_DEPTH: usize = 64;

/// Runs the command `launch`.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let known = ["--plan-fd", "--ready-fd", "--hold-fd"];
    let numbers = DescriptorOptions::parse(arguments, &known)
        .map(|options| known.map(|name| options.number(name)));
    let numbers = match numbers {
        Ok([Ok(plan), Ok(ready), Ok(hold)]) => [plan, ready, hold],
        Ok([Err(error), ..] | [_, Err(error), _] | [_, _, Err(error)]) | Err(error) => {
            return program::usage_error(&error);
        }
    };
    let Ok(ready) = sys::inherited(numbers[1]) else {
        return ExitCode::from(2);
    };
    let (line, code) = match launch(numbers) {
        Ok(guest) => (format!("{guest}\n"), ExitCode::SUCCESS),
        Err(failure) => (ReportedFailure::from(failure).line(), ExitCode::FAILURE),
    };
    // If this fails, nobody reads it; the exit code says the same.
    rustix::io::write(ready, line.as_bytes()).ok();
    code
}

/// Starts the program and returns the identity of the guest that listens.
fn launch(numbers: [RawFd; 3]) -> Result<String, StepFailure> {
    sys::close_all_except(&numbers).map_err(failed(BuildStep::Descriptors))?;
    let plan: RuntimeLaunch = program::read_plan(numbers[0])?;
    // The program inherits none of them: the lock is held by this process alone.
    for number in &numbers[1..] {
        sys::inherited(*number).map_err(failed(BuildStep::Descriptors))?;
    }
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(failed_at(BuildStep::Descriptors, b"/dev/null"))?;
    sys::null_std_streams(null.as_fd(), &numbers[1..]).map_err(failed(BuildStep::Descriptors))?;
    let output = output_file().map_err(failed(BuildStep::Descriptors))?;
    let (wait, go) = pipe_with(PipeFlags::CLOEXEC).map_err(failed(BuildStep::Namespaces))?;
    failpoint!("stage.launch.after-plan");
    let leader = match clone(0).map_err(failed(BuildStep::Namespaces))? {
        Cloned::Child => {
            drop(go);
            become_program(&plan, &wait, null.as_fd(), &output)
        }
        Cloned::Parent(leader) => leader,
    };
    drop(wait);
    failpoint!("stage.launch.after-clone");
    let listening = register(&plan, &leader, &go).and_then(|session| {
        failpoint!("stage.launch.after-go");
        let guest = wait_for_guest(&plan, &leader, &output)?;
        let namespace = mount_namespace(leader.pid).map_err(failed(BuildStep::Record))?;
        let record =
            format!("{{\"session\":{session},\"guest\":{guest},\"namespace\":{namespace}}}\n");
        write_record(&plan.record, &record)?;
        failpoint!("stage.launch.after-record");
        Ok(guest)
    });
    if listening.is_err() {
        // The record names the session, in which the host finds what is left.
        pidfd_send_signal(&leader.handle, Signal::KILL).ok();
        kill_process_group(leader.pid, Signal::KILL).ok();
        waitpid(Some(leader.pid), WaitOptions::empty()).ok();
    }
    listening
}

/// Records the session, and lets its leader go on.
fn register(plan: &RuntimeLaunch, leader: &Child, go: &OwnedFd) -> Result<String, StepFailure> {
    let session = describe_process(leader.pid)
        .map_err(|error| StepFailure::of(BuildStep::Record, error).at(&plan.record))?;
    write_record(&plan.record, &format!("{{\"session\":{session}}}\n"))?;
    rustix::io::write(go, b"+").map_err(failed(BuildStep::Namespaces))?;
    Ok(session)
}

/// Returns the mount namespace of the program as JSON, by which the host knows what it
/// leaves behind if it is killed.
fn mount_namespace(leader: Pid) -> io::Result<String> {
    let link = std::fs::read_link(format!("/proc/{}/ns/mnt", leader.as_raw_nonzero()))?;
    Ok(quoted(&link.to_string_lossy()))
}

/// Becomes the program, once this process is on record.
fn become_program(plan: &RuntimeLaunch, wait: &OwnedFd, null: impl AsFd, output: &OwnedFd) -> ! {
    // It fails only for the leader of a group, which a new process is not.
    let failure = match rustix::process::setsid() {
        Err(error) => StepFailure::of(BuildStep::Credentials, error),
        Ok(_) if rustix::io::read(wait, &mut [0_u8; 1]) != Ok(1) => sys::exit_now(1),
        Ok(_) => match prepare_program(plan, null, output) {
            Err(failure) => failure,
            Ok(()) => {
                let bytes = |list: &[minicbor::bytes::ByteVec]| -> Vec<Vec<u8>> {
                    list.iter().map(|text| text.to_vec()).collect()
                };
                let (arguments, environment) = (bytes(&plan.arguments), bytes(&plan.environment));
                let error = sys::execute(&arguments, &environment);
                let program = arguments.first().map(Vec::as_slice).unwrap_or_default();
                StepFailure::of(BuildStep::Exec, error).at(program)
            }
        },
    };
    rustix::io::write(output, ReportedFailure::from(failure).line().as_bytes()).ok();
    sys::exit_now(1)
}

fn prepare_program(
    plan: &RuntimeLaunch,
    null: impl AsFd,
    output: &OwnedFd,
) -> Result<(), StepFailure> {
    join_cgroups(&plan.cgroups)?;
    if plan.no_new_privileges {
        set_no_new_privs(true).map_err(failed(BuildStep::NoNewPrivileges))?;
    }
    rustix::process::umask(Mode::from_raw_mode(0o022));
    sys::reset_signals();
    rustix::process::chdir("/").map_err(failed_at(BuildStep::Descriptors, b"/"))?;
    rustix::stdio::dup2_stdin(null).map_err(failed(BuildStep::Descriptors))?;
    rustix::stdio::dup2_stdout(output).map_err(failed(BuildStep::Descriptors))?;
    rustix::stdio::dup2_stderr(output).map_err(failed(BuildStep::Descriptors))?;
    sys::close_all_on_exec().map_err(failed(BuildStep::Descriptors))
}

/// Returns a file without a name for what the program prints. It has its size once and
/// for all: the guest has it, too, and what runs beside a guest might fill the memory.
fn output_file() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("vestal-launch-output", flags)?;
    rustix::fs::ftruncate(&file, MAX_OUTPUT)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

/// Waits until a process below the program listens, and returns its identity.
fn wait_for_guest(
    plan: &RuntimeLaunch,
    leader: &Child,
    output: &OwnedFd,
) -> Result<String, StepFailure> {
    let deadline = Instant::now() + Duration::from_millis(plan.ready_within_ms);
    loop {
        match listener(plan) {
            Ok(Some(guest)) if is_below(guest, leader.pid) => {
                return describe_process(guest).map_err(failed(BuildStep::Record));
            }
            Ok(Some(other)) => {
                let other = other.as_raw_nonzero();
                let message = format!("process {other} listens in the place of the guest");
                return Err(StepFailure::new(BuildStep::Ended, message));
            }
            Ok(None) => {}
            Err(error) => return Err(failed_at(BuildStep::Ended, &plan.socket_dir)(error)),
        }
        if has_ended(leader).map_err(failed(BuildStep::Ended))? {
            return Err(ended(leader, output));
        }
        if Instant::now() >= deadline {
            let late = Duration::from_millis(plan.ready_within_ms).as_secs();
            let message = format!("it was not ready within {late} s");
            return Err(with_output(StepFailure::new(BuildStep::Ended, message), output));
        }
    }
}

/// Waits for the next attempt, and returns whether the program has ended.
fn has_ended(leader: &Child) -> rustix::io::Result<bool> {
    let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE.subsec_nanos().into() };
    let mut watched = [PollFd::new(&leader.handle, PollFlags::IN)];
    match poll(&mut watched, Some(&pause)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

fn ended(leader: &Child, output: &OwnedFd) -> StepFailure {
    let status = waitpid(Some(leader.pid), WaitOptions::empty()).ok().flatten();
    let how = match status.map(|(_, status)| status) {
        Some(status) => describe_end(status),
        None => "in an unknown way".to_owned(),
    };
    let message = format!("the program ended {how} before the guest was ready");
    with_output(StepFailure::new(BuildStep::Ended, message), output)
}

fn describe_end(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("with code {code}"),
        (None, Some(signal)) => format!("by signal {signal}"),
        (None, None) => "in an unknown way".to_owned(),
    }
}

/// Adds what the program has printed last.
fn with_output(failure: StepFailure, output: &OwnedFd) -> StepFailure {
    const SHOWN: usize = 800;
    let mut bytes = vec![0_u8; usize::try_from(MAX_OUTPUT).unwrap_or_default()];
    let Ok(own) = output.try_clone() else {
        return failure;
    };
    let count = File::from(own).read_at(&mut bytes, 0).unwrap_or_default();
    let printed = bytes[..count].split(|byte| *byte == 0).next().unwrap_or_default();
    let from = printed.len().saturating_sub(SHOWN);
    let text = String::from_utf8_lossy(&printed[from..]);
    match text.trim() {
        "" => failure,
        text => failure.with_detail(text),
    }
}

/// Returns the process that listens on the guest's socket, if there is one.
fn listener(plan: &RuntimeLaunch) -> rustix::io::Result<Option<Pid>> {
    // By the directory's descriptor, because a socket's path must be short.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(OsStr::from_bytes(&plan.socket_dir), flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}/{}", dir.as_raw_fd(), plan.socket_name);
    let address = SocketAddrUnix::new(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    match connect(&socket, &address) {
        Ok(()) => Ok(Some(sockopt::socket_peercred(&socket)?.pid)),
        // It is not there yet, or nobody listens there yet.
        Err(_) => Ok(None),
    }
}

/// Returns whether a process is another one or was started by it, at any distance.
fn is_below(process: Pid, ancestor: Pid) -> bool {
    let mut at = Some(process);
    for _ in 0..MAX_DEPTH {
        match at {
            Some(pid) if pid == ancestor => return true,
            Some(pid) => at = parent(pid),
            None => return false,
        }
    }
    false
}
