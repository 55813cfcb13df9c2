//! What the benchmarks share. Bars are checked here and nowhere else: a test
//! that measures time would fail on a busy machine, and prove nothing.

pub mod program;
pub mod report;
pub mod sample;

pub use program::{machine_facts, run};

/// A failure of the benchmark itself.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
