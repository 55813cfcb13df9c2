//! The host's side of the conversation with a guest.
//!
//! A [`Connection`] carries any number of calls at once, each on a [`Channel`]
//! of its own. The guest is not trusted: every frame, count and claim it sends
//! is bounded and checked, and a guest that breaks the protocol loses its
//! connection.

mod channel;
mod connection;
mod error;
mod inbox;
mod outbox;
pub mod socket;

#[cfg(test)]
mod connection_tests;
#[cfg(test)]
pub(crate) mod fake_guest;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod inbox_tests;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod socket_tests;

pub(crate) use channel::{FeedError, InputSource, feed, feed_for_reply};
pub(crate) use connection::millis;

pub use channel::{Channel, ChannelMessage, StreamSender};
pub use connection::{Connection, DEFAULT_GREETING_LIMIT};
pub use error::{CallError, Closed, ConnectError, Violation};
pub use vestal_wire::{
    CallReply, CallRequest, HelloError, HostRole, MAJOR as PROTOCOL_MAJOR, MINOR as PROTOCOL_MINOR,
    Welcome,
};
