//! Control groups: what limits the processes of an instance where systemd does
//! not do so.

mod find;
mod make;

pub(in crate::backends) use find::memory_kills;
pub(super) use find::{Controller, Hierarchies};
pub(super) use make::{Wanted, entrance, make, places, remove, strays};
