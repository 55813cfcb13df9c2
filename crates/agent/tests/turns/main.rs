//! Turns against a scripted model over real HTTP, in real sandboxes on the
//! backend `local`. The same stories are told in both APIs where it matters.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod answers;
mod branch;
mod choices;
mod compression;
mod delegation;
mod fixture;
mod hooks;
mod interrupts;
mod many;
mod memory;
mod plan;
mod resume;
mod sources;
mod tools;
mod trouble;
mod undo;
