//! One message of each sort, every field with a value of its own, so that two
//! fields which change places do not go unnoticed.

mod enclosures;
mod files;

pub(crate) use enclosures::{enclosure, mappings, mounts, purposes, roots, users};
pub(crate) use files::{file_ops, file_replies};

use minicbor::bytes::ByteVec;
use vestal_wire::{
    AttachJob, Cause, Command, Delivery, EnvVar, Event, Exit, Fault, FaultCode, FileCall, FileOp,
    FileReply, FrameKind, GuestSettings, Header, Hello, JobId, JobInfo, JobState, ListeningPort,
    Outcome, Reply, Request, Role, SessionState, ShellText, StartJob, Stats, Status, Stdin, Stream,
    Welcome, WindowSize,
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
    Hello { major: 1, minor: 2, role: Role::Owner, instance: Some("i".into()) }
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

fn exit() -> Exit {
    Exit { code: Some(3), cause: Cause::Exited }
}

fn start_job() -> StartJob {
    StartJob {
        id: id(),
        command: Command::Shell(ShellText::Inline(bytes("true"))),
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
        delivery: Delivery::EveryByte,
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

pub(crate) fn requests() -> Vec<Request> {
    let op = FileOp::Stat { path: bytes("x"), follow: true };
    vec![
        Request::Status,
        Request::Stats,
        Request::Touch,
        Request::Start(Box::new(start_job())),
        Request::Attach(AttachJob {
            id: id(),
            stdout_from: 1,
            stderr_from: 2,
            follow: true,
            delivery: Delivery::Lossy,
        }),
        Request::Wait { id: id(), timeout_ms: Some(1) },
        Request::Jobs { running: true, limit: 2 },
        Request::Lookup { id: id(), incarnation: "n".into(), boot: "b".into() },
        Request::Kill { id: id() },
        Request::Signal { id: id(), signal: 15 },
        Request::Input { id: id(), close: true },
        Request::Resize { id: id(), size: WindowSize { rows: 24, cols: 80 } },
        Request::ResetSession { name: "main".into() },
        Request::File(FileCall { session: Some("main".into()), start_dir: Some(bytes("/w")), op }),
        Request::Retain { retention_ms: Some(1) },
        Request::Shutdown { grace_ms: 1, if_idle: true },
        Request::Ports,
        Request::Connect { port: 8080 },
    ]
}

pub(crate) fn events() -> Vec<Event> {
    vec![
        Event::Started { pid: 1 },
        Event::gap(Stream::Stderr, 3),
        Event::Ended(Box::new(job_info())),
    ]
}

pub(crate) fn replies() -> Vec<Reply> {
    vec![
        Reply::Done,
        Reply::Fault(fault()),
        Reply::Status(Status {
            idle_ms: 1,
            expires_in_ms: Some(2),
            jobs_running: 3,
            jobs_known: 4,
            up_ms: 5,
            last_used_ms: 6,
        }),
        Reply::Stats(Stats {
            processes: 1,
            memory_bytes: 2,
            cpu_ms: 3,
            log_bytes: 4,
            guest_bytes: 5,
        }),
        Reply::Job(Box::new(job_info())),
        Reply::Jobs { jobs: vec![job_info()], more: true },
        Reply::Outcome(Outcome::NeverStarted),
        Reply::File(FileReply::Done),
        Reply::Ports(vec![ListeningPort {
            port: 8080,
            address: "127.0.0.1".into(),
            pid: 1,
            program: "p".into(),
            job: Some(id()),
        }]),
    ]
}

pub(crate) fn commands() -> Vec<Command> {
    vec![Command::Shell(ShellText::Streamed), Command::Argv(vec![bytes("ls"), bytes("-l")])]
}

pub(crate) fn shell_texts() -> Vec<ShellText> {
    vec![ShellText::Inline(bytes("true")), ShellText::Streamed]
}

pub(crate) fn deliveries() -> Vec<Delivery> {
    vec![
        Delivery::Detached,
        Delivery::EveryByte,
        Delivery::Lossy,
        Delivery::Captured { head: 1, tail: 2 },
    ]
}

pub(crate) fn causes() -> Vec<Cause> {
    vec![Cause::Exited, Cause::Signaled(9), Cause::TimedOut, Cause::Killed, Cause::Lost]
}

pub(crate) fn job_states() -> Vec<JobState> {
    vec![JobState::Starting, JobState::Running, JobState::Ended(exit())]
}

pub(crate) fn outcomes() -> Vec<Outcome> {
    vec![Outcome::Known(Box::new(job_info())), Outcome::NeverStarted, Outcome::Unknown]
}
