#![doc = include_str!("../README.md")]

mod control;
mod dispatch;
#[cfg(feature = "failpoints")]
pub mod failpoint;
#[cfg(not(feature = "failpoints"))]
mod failpoint;
mod http;
mod leftovers;
mod lifecycle;
mod runs;
mod schedules;
mod settings;
mod state;
mod store;
mod turns;
mod unfinished;

pub use control::{GatewayControlError, StatusAnswer, ask_status, ask_stop, control_path};
pub use dispatch::DispatcherHost;
pub use http::openapi_document;
pub use lifecycle::{Gateway, GatewayEnd, GatewayError, ShutdownCause};
pub use schedules::{deliver_output, run_schedule, schedules_runner};
pub use settings::{ApiServer, ApiServerError, GatewaySettings, RequestTimeouts};
pub use state::{
    GatewayPhase, GatewayState, GatewayStateError, ListenerPhase, ListenerState, read_state,
    state_path,
};
pub use vestal_runtime::panics;
