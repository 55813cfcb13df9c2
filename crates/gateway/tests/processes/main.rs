//! Gateways as real processes that are killed and started again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod crashes;
mod fixture;
mod resume;
mod runs;
