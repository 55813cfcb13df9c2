//! Sandboxes as JSON-RPC: `vestal serve --sandboxes`, for programs in other languages.

mod board;
mod catalogue;
mod connection;
mod events;
mod failure;
mod files;
mod jobs;
mod lifecycle;
mod limits;
mod methods;
mod requests;
mod run;
mod server;
mod snapshots;

pub use catalogue::sandbox_catalogue;
pub use connection::SandboxConnection;
pub use server::{IsolationRule, SandboxService};
