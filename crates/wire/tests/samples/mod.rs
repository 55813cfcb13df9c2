//! One message of each sort, every field with a value of its own, so that two
//! fields which change places do not go unnoticed.

mod enclosures;
mod files;

pub(crate) use enclosures::{
    confinement, enclosure, launch, mappings, mounts, purposes, roots, users,
};
pub(crate) use files::*;

use minicbor::bytes::ByteVec;
use vestal_wire::{
    AttachJob, CallEvent, CallReply, CallRequest, Cause, CommandOutcome, EnvVar, Fault, FaultCode,
    FileCall, FileOp, FileReply, FrameKind, GuestSettings, Header, Hello, HostRole, JobCommand,
    JobExit, JobId, JobInfo, JobState, ListeningPort, OutputDelivery, SandboxStats, SessionState,
    ShellText, StartJob, Status, Stdin, Stream, Welcome, WindowSize,
};

fn bytes(text: &str) -> ByteVec {
    ByteVec::from(text.as_bytes().to_vec())
}

fn id() -> JobId {
    "j-1".parse().expect("a job id")
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: bytes(name), value: bytes(value) }
}

pub(crate) fn header() -> Header {
    Header { len: 0x1234, channel: 0x0506_0708, kind: FrameKind::Data, stream: Stream::Text }
}

pub(crate) fn hello() -> Hello {
    Hello { major: 1, minor: 2, role: HostRole::Owner, instance: Some("i".into()) }
}

pub(crate) fn welcome() -> Welcome {
    Welcome {
        major: 1,
        minor: 2,
        program: "p".into(),
        instance: "i".into(),
        key: "k".into(),
        generation: 3,
        incarnation: "n".into(),
        boot: "b".into(),
    }
}

pub(crate) fn guest_settings() -> GuestSettings {
    GuestSettings {
        instance: "i".into(),
        key: "k".into(),
        generation: 1,
        state_dir: bytes("/s"),
        socket_dir: bytes("/r"),
        retention_ms: Some(2),
        owner_grace_ms: Some(3),
        env: vec![variable("A", "a")],
        home: bytes("/h"),
        start_dir: bytes("/w"),
        log_bytes: 4,
        jobs_kept: 5,
        previous_instances: vec!["f".into()],
        ephemeral: true,
        user: None,
        socket_mode: None,
        inherit_env: false,
        hand_over: Vec::new(),
    }
}

/// The same with every field that came later.
pub(crate) fn guest_settings_for_a_user() -> GuestSettings {
    GuestSettings {
        user: Some("u:g".into()),
        socket_mode: Some(6),
        inherit_env: true,
        hand_over: vec![bytes("/o")],
        ..guest_settings()
    }
}

pub(crate) fn fault() -> Fault {
    Fault { code: FaultCode::NotFound, message: "m".into(), errno: Some(2) }
}

fn exit() -> JobExit {
    JobExit { code: Some(3), cause: Cause::Exited }
}

fn start_job() -> StartJob {
    StartJob {
        id: id(),
        command: JobCommand::Shell(ShellText::Inline(bytes("true"))),
        session: Some("main".into()),
        workdir: Some(bytes("/d")),
        start_dir: Some(bytes("/w")),
        env: Some(vec![variable("A", "a")]),
        job_env: vec![variable("B", "b")],
        stdin: Stdin::Piped,
        pty: Some(WindowSize { rows: 24, cols: 80 }),
        merge: true,
        timeout_ms: Some(1000),
        background: false,
        delivery: OutputDelivery::EveryByte,
    }
}

fn job_info() -> JobInfo {
    JobInfo {
        id: id(),
        state: JobState::Ended(exit()),
        summary: "true".into(),
        session: Some("main".into()),
        cwd: bytes("/w"),
        background: true,
        pty: false,
        pid: Some(1),
        pid_start: Some(2),
        started_ms: 3,
        ended_ms: Some(4),
        stdout_bytes: 5,
        stderr_bytes: 6,
        stdout_omitted: 7,
        stderr_omitted: 8,
        processes: 9,
        stdin_open: true,
        session_state: SessionState::Saved,
        duration_us: Some(10),
        session_error: None,
    }
}

pub(crate) fn requests() -> Vec<CallRequest> {
    let op = FileOp::Stat { path: bytes("x"), follow: true };
    vec![
        CallRequest::Status,
        CallRequest::Stats,
        CallRequest::Touch,
        CallRequest::Start(Box::new(start_job())),
        CallRequest::Attach(AttachJob {
            id: id(),
            stdout_from: 1,
            stderr_from: 2,
            follow: true,
            delivery: OutputDelivery::Lossy,
        }),
        CallRequest::Wait { id: id(), timeout_ms: Some(1) },
        CallRequest::Jobs { running: true, limit: 2 },
        CallRequest::Lookup { id: id(), incarnation: "n".into(), boot: "b".into() },
        CallRequest::Kill { id: id() },
        CallRequest::Signal { id: id(), signal: 15 },
        CallRequest::Input { id: id(), close: true },
        CallRequest::Resize { id: id(), size: WindowSize { rows: 24, cols: 80 } },
        CallRequest::ResetSession { name: "main".into() },
        CallRequest::File(FileCall {
            session: Some("main".into()),
            start_dir: Some(bytes("/w")),
            op,
        }),
        CallRequest::Retain { retention_ms: Some(1) },
        CallRequest::Shutdown { grace_ms: 1, if_idle: true },
        CallRequest::Ports,
        CallRequest::Connect { port: 8080 },
    ]
}

pub(crate) fn events() -> Vec<CallEvent> {
    vec![
        CallEvent::Started { pid: 1 },
        CallEvent::gap(Stream::Stderr, 3),
        CallEvent::Ended(Box::new(job_info())),
    ]
}

pub(crate) fn replies() -> Vec<CallReply> {
    vec![
        CallReply::Done,
        CallReply::Fault(fault()),
        CallReply::Status(Status {
            idle_ms: 1,
            expires_in_ms: Some(2),
            jobs_running: 3,
            jobs_known: 4,
            up_ms: 5,
            last_used_ms: 6,
        }),
        CallReply::Stats(SandboxStats {
            processes: 1,
            memory_bytes: 2,
            cpu_ms: 3,
            log_bytes: 4,
            guest_bytes: 5,
        }),
        CallReply::Job(Box::new(job_info())),
        CallReply::Jobs { jobs: vec![job_info()], more: true },
        CallReply::Outcome(CommandOutcome::NeverStarted),
        CallReply::File(FileReply::Done),
        CallReply::Ports(vec![ListeningPort {
            port: 8080,
            address: "127.0.0.1".into(),
            pid: 1,
            program: "p".into(),
            job: Some(id()),
        }]),
    ]
}

pub(crate) fn commands() -> Vec<JobCommand> {
    vec![JobCommand::Shell(ShellText::Streamed), JobCommand::Argv(vec![bytes("ls"), bytes("-l")])]
}

pub(crate) fn shell_texts() -> Vec<ShellText> {
    vec![ShellText::Inline(bytes("true")), ShellText::Streamed]
}

pub(crate) fn deliveries() -> Vec<OutputDelivery> {
    vec![
        OutputDelivery::Detached,
        OutputDelivery::EveryByte,
        OutputDelivery::Lossy,
        OutputDelivery::Captured { head: 1, tail: 2 },
    ]
}

pub(crate) fn causes() -> Vec<Cause> {
    vec![Cause::Exited, Cause::Signaled(9), Cause::TimedOut, Cause::Killed, Cause::Lost]
}

pub(crate) fn job_states() -> Vec<JobState> {
    vec![JobState::Starting, JobState::Running, JobState::Ended(exit())]
}

pub(crate) fn outcomes() -> Vec<CommandOutcome> {
    vec![
        CommandOutcome::Known(Box::new(job_info())),
        CommandOutcome::NeverStarted,
        CommandOutcome::Unknown,
    ]
}
