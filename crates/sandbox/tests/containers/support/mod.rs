//! What the cases stand on: engines, homes and other processes.

mod api;
mod own_engine;
mod process;
mod proxy;
mod uses;
mod worker;
mod world;

pub(crate) use api::{Api, Remove, encode};
pub(crate) use own_engine::OwnEngine;
pub(crate) use process::{kill, marker, processes_with, until};
pub(crate) use proxy::{Fate, Hold, Proxy, Request};
pub(crate) use uses::{kill_tree, restarted, use_all};
pub(crate) use worker::Worker;
pub(crate) use world::{World, out, run};

use vestal_config::Environment;

/// Returns what `scripts/test` tells the tests by a variable.
pub(crate) fn variable(name: &str) -> String {
    let value = Environment::capture().get(name).map(|value| value.to_str().unwrap().to_owned());
    value.unwrap_or_else(|| panic!("{name} is not set: run `scripts/test test`, which sets it"))
}
