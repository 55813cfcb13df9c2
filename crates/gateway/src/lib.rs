#![doc = include_str!("../README.md")]

mod control;
mod dispatch;
mod http;
mod lifecycle;
mod runs;
mod settings;
mod state;
mod store;
mod turns;

pub use control::{ControlError, StatusAnswer, ask_status, ask_stop, control_path};
pub use dispatch::DispatcherHost;
pub use http::openapi_document;
pub use lifecycle::{Gateway, GatewayEnd, GatewayError, Shutdown};
pub use settings::{ApiServer, ApiServerError, GatewaySettings};
pub use state::{
    GatewayPhase, GatewayState, ListenerPhase, ListenerState, StateError, read_state, state_path,
};
