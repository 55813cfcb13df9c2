//! What the cases stand on: engines, homes and other processes.

mod fixture;
mod own_engine;
mod process;
mod proxy;
mod uses;
#[path = "../../conformance/support/worker.rs"]
#[expect(dead_code, reason = "the conformance suite needs more of it")]
mod worker;

pub(crate) use fixture::{EngineFixture, out, run};
pub(crate) use own_engine::OwnEngine;
pub(crate) use process::{kill, marker, processes_with, until};
pub(crate) use proxy::{Fate, Hold, Proxy, Request};
pub(crate) use uses::{kill_tree, restarted, use_all};
pub(crate) use vestal_testkit::engines::{ClearOnDrop, EngineApi, encode, given};
pub(crate) use worker::Worker;
