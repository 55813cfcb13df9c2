//! The cases, by what they are about.

pub(crate) mod apart;
pub(crate) mod copies;
pub(crate) mod engine_death;
pub(crate) mod images;
pub(crate) mod injury;
pub(crate) mod limits;
pub(crate) mod mounts;
pub(crate) mod reaper;
pub(crate) mod reuse;
pub(crate) mod snapshots;
pub(crate) mod soak;
pub(crate) mod story;
pub(crate) mod supply;
pub(crate) mod users;
