//! Requests, events, replies and faults.

use proptest::prelude::*;
use vestal_wire::{Event, Fault, FaultCode, ListeningPort, Reply, Request};

use super::file::{file_call, file_reply};
use super::greeting::{stats, status};
use super::job::{attach_job, job_id, job_info, outcome, start_job, window_size};
use super::{few, maybe, text};

pub(crate) fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        Just(Request::Status),
        Just(Request::Stats),
        Just(Request::Touch),
        start_job().prop_map(|start| Request::Start(Box::new(start))),
        attach_job().prop_map(Request::Attach),
        fields!(Request::Wait { id: job_id(), timeout_ms: maybe(any::<u64>()) }),
        fields!(Request::Jobs { running: any::<bool>(), limit: any::<u32>() }),
        fields!(Request::Lookup { id: job_id(), incarnation: text(), boot: text() }),
        fields!(Request::Kill { id: job_id() }),
        fields!(Request::Signal { id: job_id(), signal: any::<i32>() }),
        fields!(Request::Input { id: job_id(), close: any::<bool>() }),
        fields!(Request::Resize { id: job_id(), size: window_size() }),
        fields!(Request::ResetSession { name: text() }),
        file_call().prop_map(Request::File),
        fields!(Request::Retain { retention_ms: maybe(any::<u64>()) }),
        fields!(Request::Shutdown { grace_ms: any::<u64>(), if_idle: any::<bool>() }),
        Just(Request::Ports),
        fields!(Request::Connect { port: any::<u16>() }),
    ]
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        fields!(Event::Started { pid: any::<u32>() }),
        fields!(Event::Gap { stream: any::<u8>(), bytes: any::<u64>() }),
        job_info().prop_map(|info| Event::Ended(Box::new(info))),
    ]
}

pub(crate) fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Done),
        fault().prop_map(Reply::Fault),
        status().prop_map(Reply::Status),
        stats().prop_map(Reply::Stats),
        job_info().prop_map(|info| Reply::Job(Box::new(info))),
        fields!(Reply::Jobs { jobs: few(job_info()), more: any::<bool>() }),
        outcome().prop_map(Reply::Outcome),
        file_reply().prop_map(Reply::File),
        few(listening_port()).prop_map(Reply::Ports),
    ]
}

fn listening_port() -> impl Strategy<Value = ListeningPort> {
    fields!(ListeningPort {
        port: any::<u16>(),
        address: text(),
        pid: any::<u32>(),
        program: text(),
        job: maybe(job_id()),
    })
}

pub(crate) fn fault() -> impl Strategy<Value = Fault> {
    fields!(Fault { code: fault_code(), message: text(), errno: maybe(any::<i32>()) })
}

fn fault_code() -> impl Strategy<Value = FaultCode> {
    prop::sample::select(vec![
        FaultCode::Internal,
        FaultCode::Invalid,
        FaultCode::Unsupported,
        FaultCode::WrongInstance,
        FaultCode::Cancelled,
        FaultCode::ShuttingDown,
        FaultCode::Busy,
        FaultCode::NoSuchJob,
        FaultCode::NoWorkdir,
        FaultCode::NotFound,
        FaultCode::Exists,
        FaultCode::WrongKind,
        FaultCode::Denied,
        FaultCode::Conflict,
        FaultCode::NoSpace,
        FaultCode::System,
    ])
}
