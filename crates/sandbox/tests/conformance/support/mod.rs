//! What the cases stand on: a home of their own, engines and other processes.

mod gate;
mod process;
mod world;

pub(crate) use gate::Gate;
pub(crate) use process::{alive, marker, parent_of, processes_with, until};
pub(crate) use world::{Worker, World};
