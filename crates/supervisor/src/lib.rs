#![doc = include_str!("../README.md")]

mod changes;
mod child;
mod control;
mod detach;
#[cfg(feature = "failpoints")]
pub mod failpoint;
#[cfg(not(feature = "failpoints"))]
mod failpoint;
mod files;
mod lock;
mod log;
mod main_program;
mod offline;
mod policy;
mod record;
mod runner;
mod serve;
mod slot;
mod slots;
mod state;
mod supervisor;
mod systemd;

pub use child::{PLANNED_STOP_VARIABLE, READY_VARIABLE};
pub use control::{ControlError, OrderOutcome, SupervisorAnswer, SupervisorRequest, ask};
pub use detach::{DetachError, announce_ready, detached_log_files, start_detached};
pub use lock::{Holder, Manager, SupervisorLockError};
pub use log::{boot_log_files, slot_log_files};
pub use main_program::{MainProgram, become_main_program};
pub use offline::{
    EndedLeftover, OfflineError, SlotStatuses, end_leftovers, has_leftover, list_offline,
    stop_offline,
};
pub use policy::{ChildEnd, EXIT_PERMANENT, EXIT_RESTART, NextStep, PlannedOrder, RestartPolicy};
pub use record::{PlannedAction, PlannedStop, RUN_VARIABLE};
pub use slot::{BadSlotName, BootRule, FoundSlot, Slot, SlotName, SlotService, SlotSource};
pub use state::{
    Actual, Desired, LastExit, OrderResult, PartState, SlotState, SlotStatus, StateFileError,
    read_actual, read_desired,
};
pub use supervisor::{Supervisor, SupervisorError, SupervisorOptions};
pub use systemd::{UnitScope, unit_text};
