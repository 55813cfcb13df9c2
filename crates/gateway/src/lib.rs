#![doc = include_str!("../README.md")]

mod address;
mod control;
mod dispatch;
#[cfg(feature = "failpoints")]
pub mod failpoint;
#[cfg(not(feature = "failpoints"))]
mod failpoint;
mod http;
mod leftovers;
mod lifecycle;
mod questions;
mod runs;
mod schedules;
mod settings;
mod start_error;
mod state;
mod store;
mod turns;
mod unfinished;

pub use address::{AddressHolder, ApiSocketError, ForeignListener, foreign_listeners};
pub use control::{
    GatewayControlError, StatusAnswer, answer_question, ask_questions, ask_status, ask_stop,
    control_path,
};
pub use dispatch::DispatcherHost;
pub use http::openapi_document;
pub use lifecycle::{Gateway, GatewayEnd, ShutdownCause};
pub use schedules::{deliver_output, run_schedule, schedules_runner};
pub use settings::{ApiServer, ApiServerError, GatewaySettings, RequestTimeouts};
pub use start_error::GatewayError;
pub use state::{
    GatewayPhase, GatewayState, GatewayStateError, ListenerPhase, ListenerState, read_state,
    state_path,
};
pub use vestal_runtime::panics;
