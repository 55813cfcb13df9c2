#![doc = include_str!("../README.md")]

mod claimed_run;
mod error;
pub mod keys;
mod moments;
mod plan;
mod run;
mod schedule;
mod scheduler;
mod store;
mod timing;

pub use claimed_run::run_claimed;
pub use error::Error;
pub use moments::{InvalidZone, Zone};
pub use run::{
    Delivered, MAX_OUTPUT, RunOutcome, RunOwner, RunReport, ScheduleRun, ScheduleRunId,
    ScheduleRunStatus, Trigger,
};
pub use schedule::{
    InvalidScheduleId, MissedPolicy, NewSchedule, Schedule, ScheduleChange, ScheduleDelivery,
    ScheduleId, ScheduleState,
};
pub use scheduler::{DeliveryError, Executor, RunJob, Scheduler, SchedulerLimits};
pub use store::{KEPT_RUNS, ScheduleStore, Taken, store_path};
pub use timing::{InvalidTiming, ScheduleClock, ScheduleTiming};

/// The result of what a store is asked.
pub type Result<T> = std::result::Result<T, Error>;
