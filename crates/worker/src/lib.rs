//! The agent at work on a task of the board. See the crate's README for the contract.

mod account;
mod clean;
mod desk;
mod ending;
mod layout;
mod limits;
mod log;
mod place;
mod prompt;
mod run;
mod skilled;
mod sweep;
mod verdict;
mod watch;
mod work;

pub mod tools;

pub use desk::Desk;
pub use ending::{Ending, Report};
pub use limits::Limits;
pub use log::Log;
pub use run::{WorkerParts, run};
pub use sweep::{SweepError, SweepParts, sweep};
