//! The commands: arguments, calls of the libraries, and output.

pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod conversations;
pub(crate) mod cp;
pub(crate) mod doctor;
pub(crate) mod gateway;
pub(crate) mod inspect;
pub(crate) mod jobs;
pub(crate) mod kanban;
pub(crate) mod lifecycle;
pub(crate) mod logs;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod model;
pub(crate) mod profile;
pub(crate) mod prune;
pub(crate) mod ps;
pub(crate) mod rebuild;
pub(crate) mod restore;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod skills;
pub(crate) mod snapshots;
pub(crate) mod supervise;
