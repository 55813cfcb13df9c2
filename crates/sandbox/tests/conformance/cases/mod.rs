//! The cases, by chapter of the contract.

pub(crate) mod apptainer;
pub(crate) mod bad_input;
pub(crate) mod binds;
pub(crate) mod commands;
pub(crate) mod copying;
pub(crate) mod crashes;
pub(crate) mod credentials;
pub(crate) mod cuts;
pub(crate) mod drift;
pub(crate) mod files;
pub(crate) mod identity;
pub(crate) mod jobs;
pub(crate) mod lifecycle;
pub(crate) mod model;
pub(crate) mod overrides;
pub(crate) mod owned;
pub(crate) mod publishing;
pub(crate) mod reaping;
pub(crate) mod sessions;
pub(crate) mod snapshots;
pub(crate) mod survival;
pub(crate) mod syncing;
