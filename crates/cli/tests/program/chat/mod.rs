//! `vestal chat`, against a model that says what a script tells it to.

mod answers;
mod failures;
mod input;
mod interrupts;
mod people;
mod sandbox;
pub(crate) mod world;
