//! What the cases stand on: a home of their own, engines and other processes.

mod gate;
mod machine;
mod process;
mod toy;
mod toy_machine;
mod user;
#[expect(dead_code, reason = "the suite of containers needs more of it")]
mod worker;
mod world;

pub(crate) use gate::Gate;
pub(crate) use process::{alive, marker, parent_of, processes_with, until};

pub(crate) use user::User;
pub(crate) use worker::Worker;
pub(crate) use world::{Kind, World};
