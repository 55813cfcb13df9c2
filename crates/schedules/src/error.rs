//! Errors of schedules.

use std::io;

use crate::moments::InvalidZone;
use crate::run::ScheduleRunId;
use crate::schedule::{InvalidScheduleId, ScheduleId};
use crate::timing::InvalidTiming;

/// Why something could not be done with a schedule. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such schedule.
    #[error("there is no schedule {wanted:?}")]
    NotFound {
        /// What was looked for.
        wanted: String,
    },
    /// Several schedules match.
    #[error("{wanted:?} matches {} schedules", candidates.len())]
    Ambiguous {
        /// What was looked for.
        wanted: String,
        /// Their ids and names.
        candidates: Vec<(ScheduleId, String)>,
    },
    /// There is no such run, or it is no longer kept.
    #[error("there is no run {0}; the last runs of a schedule are kept")]
    NoRun(ScheduleRunId),
    /// Another schedule has the name.
    #[error("schedule {id} is called {name:?} already; choose another name")]
    NameTaken {
        /// The name.
        name: String,
        /// The id of the other one.
        id: String,
    },
    /// A text that is not the id of a schedule.
    #[error(transparent)]
    InvalidId(#[from] InvalidScheduleId),
    /// A text that says no time.
    #[error(transparent)]
    Timing(#[from] InvalidTiming),
    /// A time zone that is not known.
    #[error(transparent)]
    Zone(#[from] InvalidZone),
    /// A time that never comes.
    #[error("{timing:?} never comes: {reason}")]
    Never {
        /// The time.
        timing: String,
        /// Why.
        reason: &'static str,
    },
    /// A value that a schedule cannot have.
    #[error("{field} {reason}")]
    Invalid {
        /// What.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The schedule is in progress.
    #[error("schedule {id} is running (run {run}); a schedule never runs twice at once")]
    Running {
        /// The schedule.
        id: ScheduleId,
        /// The run.
        run: ScheduleRunId,
    },
    /// A stored value cannot be read.
    #[error("{what} of schedule {id} is unreadable: {reason}; edit or remove the schedule")]
    Unreadable {
        /// The schedule.
        id: String,
        /// What.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// This process cannot tell who it is.
    #[error("cannot identify this process: {0}")]
    Process(io::Error),
    /// The system has no randomness.
    #[error("cannot make an id: {0}")]
    Random(io::Error),
    /// The file of the schedules cannot be used.
    #[error(transparent)]
    Database(#[from] vestal_database::Error),
}
