#![doc = include_str!("../README.md")]

mod admission;
mod catalogue;
mod connection;
mod error;
mod events;
mod hub;
mod lines;
mod methods;
mod outbox;
mod protocol;
mod server;
mod session;
mod slash;
mod turns;
mod views;

pub use admission::{Admission, Admitted, Unlimited};
pub use catalogue::catalogue;
pub use connection::{BadFrame, Connection, MAX_FRAME, Outgoing};
pub use lines::{Line, LineReader};
pub use server::{ServeSettings, Server, ServerBuilder, WaitingQuestion};
