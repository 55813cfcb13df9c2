//! `vestal chat`, against a model that says what a script tells it to.

mod answers;
mod failures;
pub(crate) mod fixture;
mod input;
mod interrupts;
mod people;
mod sandbox;
