//! Jobs.

use proptest::prelude::*;
use vestal_wire::{
    AttachJob, Cause, CommandOutcome, EnvVar, JobCommand, JobExit, JobId, JobInfo, JobState,
    OutputDelivery, SessionState, ShellText, StartJob, Stdin, WindowSize,
};

use super::{bytes, few, maybe, text};

pub(crate) fn job_id() -> impl Strategy<Value = JobId> {
    "[a-z0-9-]{1,64}".prop_filter_map("no job id", |text| text.parse().ok())
}

pub(super) fn environment() -> impl Strategy<Value = Vec<EnvVar>> {
    few(fields!(EnvVar { name: bytes(), value: bytes() }))
}

pub(super) fn window_size() -> impl Strategy<Value = WindowSize> {
    fields!(WindowSize { rows: any::<u16>(), cols: any::<u16>() })
}

fn command() -> impl Strategy<Value = JobCommand> {
    prop_oneof![
        bytes().prop_map(|text| JobCommand::Shell(ShellText::Inline(text))),
        Just(JobCommand::Shell(ShellText::Streamed)),
        few(bytes()).prop_map(JobCommand::Argv),
    ]
}

fn delivery() -> impl Strategy<Value = OutputDelivery> {
    prop_oneof![
        Just(OutputDelivery::Detached),
        Just(OutputDelivery::EveryByte),
        Just(OutputDelivery::Lossy),
        fields!(OutputDelivery::Captured { head: any::<u32>(), tail: any::<u32>() }),
    ]
}

pub(super) fn start_job() -> impl Strategy<Value = StartJob> {
    fields!(StartJob {
        id: job_id(),
        command: command(),
        session: maybe(text()),
        workdir: maybe(bytes()),
        start_dir: maybe(bytes()),
        env: maybe(environment()),
        job_env: environment(),
        stdin: prop_oneof![Just(Stdin::Null), Just(Stdin::Piped)],
        pty: maybe(window_size()),
        merge: any::<bool>(),
        timeout_ms: maybe(any::<u64>()),
        background: any::<bool>(),
        delivery: delivery(),
    })
}

pub(super) fn attach_job() -> impl Strategy<Value = AttachJob> {
    fields!(AttachJob {
        id: job_id(),
        stdout_from: any::<u64>(),
        stderr_from: any::<u64>(),
        follow: any::<bool>(),
        delivery: delivery(),
    })
}

fn job_state() -> impl Strategy<Value = JobState> {
    let exit = fields!(JobExit { code: maybe(any::<u8>()), cause: cause() });
    prop_oneof![Just(JobState::Starting), Just(JobState::Running), exit.prop_map(JobState::Ended),]
}

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        Just(Cause::Exited),
        any::<i32>().prop_map(Cause::Signaled),
        Just(Cause::TimedOut),
        Just(Cause::Killed),
        Just(Cause::Lost),
    ]
}

fn session_state() -> impl Strategy<Value = SessionState> {
    prop_oneof![Just(SessionState::None), Just(SessionState::Saved), Just(SessionState::Superseded),]
}

pub(super) fn job_info() -> impl Strategy<Value = JobInfo> {
    fields!(JobInfo {
        id: job_id(),
        state: job_state(),
        summary: text(),
        session: maybe(text()),
        cwd: bytes(),
        background: any::<bool>(),
        pty: any::<bool>(),
        pid: maybe(any::<u32>()),
        pid_start: maybe(any::<u64>()),
        started_ms: any::<u64>(),
        ended_ms: maybe(any::<u64>()),
        stdout_bytes: any::<u64>(),
        stderr_bytes: any::<u64>(),
        stdout_omitted: any::<u64>(),
        stderr_omitted: any::<u64>(),
        processes: any::<u32>(),
        stdin_open: any::<bool>(),
        session_state: session_state(),
        duration_us: maybe(any::<u64>()),
        session_error: maybe(text()),
    })
    .boxed()
}

pub(super) fn outcome() -> impl Strategy<Value = CommandOutcome> {
    prop_oneof![
        job_info().prop_map(|info| CommandOutcome::Known(Box::new(info))),
        Just(CommandOutcome::NeverStarted),
        Just(CommandOutcome::Unknown),
    ]
}
