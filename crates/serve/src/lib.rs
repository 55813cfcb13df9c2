#![doc = include_str!("../README.md")]

mod admission;
mod catalogue;
mod connection;
mod error;
mod events;
mod hub;
mod methods;
mod outbox;
mod protocol;
mod remote;
mod sandboxes;
mod server;
mod session;
mod slash;
mod turns;
mod views;

pub use admission::{Admission, TurnPermit, Unlimited};
pub use catalogue::catalogue;
pub use connection::{BadFrame, ClientConnection, ClientFrames, FrameLine, FrameReader, MAX_FRAME};
pub use remote::ClientLocation;
pub use sandboxes::{IsolationRule, SandboxConnection, SandboxService, sandbox_catalogue};
pub use server::{ServeSettings, Server, ServerBuilder, WaitingQuestion};
