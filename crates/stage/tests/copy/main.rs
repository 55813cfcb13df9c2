//! Copies of trees: the same in everything but their trees, or not there.

#![expect(clippy::unwrap_used, reason = "a helper of a test may panic as the test may")]

mod apart;
mod given_up;
mod same;
mod support;
