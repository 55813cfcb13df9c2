//! Copies of trees: complete and faithful, or not there at all.

#![expect(clippy::unwrap_used, reason = "a helper of a test may panic as the test may")]

mod boundaries;
mod failures;
mod fidelity;
mod support;
