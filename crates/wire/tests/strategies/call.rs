//! Requests, events, replies and faults.

use proptest::prelude::*;
use vestal_wire::{CallEvent, CallReply, CallRequest, Fault, FaultCode, ListeningPort};

use super::file::{file_call, file_reply};
use super::greeting::{stats, status};
use super::job::{attach_job, job_id, job_info, outcome, start_job, window_size};
use super::{few, maybe, text};

pub(crate) fn request() -> impl Strategy<Value = CallRequest> {
    prop_oneof![
        Just(CallRequest::Status),
        Just(CallRequest::Stats),
        Just(CallRequest::Touch),
        start_job().prop_map(|start| CallRequest::Start(Box::new(start))),
        attach_job().prop_map(CallRequest::Attach),
        fields!(CallRequest::Wait { id: job_id(), timeout_ms: maybe(any::<u64>()) }),
        fields!(CallRequest::Jobs { running: any::<bool>(), limit: any::<u32>() }),
        fields!(CallRequest::Lookup { id: job_id(), incarnation: text(), boot: text() }),
        fields!(CallRequest::Kill { id: job_id() }),
        fields!(CallRequest::Signal { id: job_id(), signal: any::<i32>() }),
        fields!(CallRequest::Input { id: job_id(), close: any::<bool>() }),
        fields!(CallRequest::Resize { id: job_id(), size: window_size() }),
        fields!(CallRequest::ResetSession { name: text() }),
        file_call().prop_map(CallRequest::File),
        fields!(CallRequest::Retain { retention_ms: maybe(any::<u64>()) }),
        fields!(CallRequest::Shutdown { grace_ms: any::<u64>(), if_idle: any::<bool>() }),
        Just(CallRequest::Ports),
        fields!(CallRequest::Connect { port: any::<u16>() }),
    ]
}

pub(crate) fn event() -> impl Strategy<Value = CallEvent> {
    prop_oneof![
        fields!(CallEvent::Started { pid: any::<u32>() }),
        fields!(CallEvent::Gap { stream: any::<u8>(), bytes: any::<u64>() }),
        job_info().prop_map(|info| CallEvent::Ended(Box::new(info))),
    ]
}

pub(crate) fn reply() -> impl Strategy<Value = CallReply> {
    prop_oneof![
        Just(CallReply::Done),
        fault().prop_map(CallReply::Fault),
        status().prop_map(CallReply::Status),
        stats().prop_map(CallReply::Stats),
        job_info().prop_map(|info| CallReply::Job(Box::new(info))),
        fields!(CallReply::Jobs { jobs: few(job_info()), more: any::<bool>() }),
        outcome().prop_map(CallReply::Outcome),
        file_reply().prop_map(CallReply::File),
        few(listening_port()).prop_map(CallReply::Ports),
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
