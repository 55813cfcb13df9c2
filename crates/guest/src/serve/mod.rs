//! The guest's event loop: one thread that waits for all events.
//!
//! The loop never blocks on a client, a job or a file. Events of one turn are
//! handled first; replies are sent at the end of the turn in as few writes as
//! possible.

mod boot;
mod calls;
mod connection;
mod connections;
mod frames;
mod guest;
mod input;
mod jobs;
mod launch;
mod lifetime;
mod output;
mod reactor;
mod reports;
mod start;
mod tunnel;
mod workers;

pub(crate) use boot::{GuestError, SOCKET_NAME, StartupHandles, run};
pub(crate) use reactor::JobKey;
