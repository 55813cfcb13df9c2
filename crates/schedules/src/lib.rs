#![doc = include_str!("../README.md")]

mod clock;
mod error;
pub mod keys;
mod moments;
mod plan;
mod run;
mod schedule;
mod scheduler;
mod store;
mod timing;
mod wake;

pub use clock::Clock;
pub use error::Error;
pub use moments::{InvalidZone, Zone};
pub use run::{
    Delivered, MAX_OUTPUT, Owner, Run, RunId, RunOutcome, RunReport, RunStatus, Trigger,
};
pub use schedule::{
    Delivery, InvalidId, MissedPolicy, NewSchedule, Schedule, ScheduleChange, ScheduleId,
    ScheduleState,
};
pub use scheduler::{DeliveryError, Executor, RunJob, Scheduler, SchedulerLimits, run_claimed};
pub use store::{KEPT_RUNS, Store, Taken, store_path};
pub use timing::{InvalidTiming, Timing};

/// The result of what a store is asked.
pub type Result<T> = std::result::Result<T, Error>;
