//! What the cases stand on: a home of their own, engines and other processes.

mod engine;
mod fixture;
mod gate;
mod guest_process;
mod machine;
mod process;
mod toy;
mod toy_machine;
mod user;
#[expect(dead_code, reason = "the suite of containers needs more of it")]
mod worker;

pub(crate) use gate::Gate;
pub(crate) use process::{alive, living, marker, parent_of, processes_with, until};

pub(crate) use fixture::{BackendFixture, Kind};
pub(crate) use user::User;
pub(crate) use worker::Worker;
