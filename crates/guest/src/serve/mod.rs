//! The guest at work: one thread that waits for everything at once.
//!
//! The loop never blocks on a client, a job or a file. What happens in a turn
//! of it is noted, and answered at the end of the turn in as few writes as
//! possible.

mod boot;
mod calls;
mod channel;
mod clock;
mod conn;
mod conns;
mod end;
mod filecalls;
mod follower;
mod frames;
mod guest;
mod identity;
mod ids;
mod input;
mod job;
mod jobs;
mod launch;
mod link;
mod outbox;
mod output;
mod poll;
mod pool;
mod reports;
mod sessions;
mod shutdown;
mod signals;
mod start;
mod stdin;
mod tenant;
mod timers;
mod workers;

pub(crate) use boot::{Inheritance, run};
pub(crate) use identity::SOCKET_NAME;
