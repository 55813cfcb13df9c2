#![doc = include_str!("../README.md")]

mod app;
mod assets;
mod auth;
mod body;
mod data;
mod error;
mod events;
pub mod gate;
mod instance;
mod pages;
mod preview;
mod samples;
mod server;
mod settings;
mod shared_work;
mod shell;
mod watch;

pub use app::{Dashboard, ServeError};
pub use auth::{
    AuthStore, LinkError, MIN_PASSWORD, NewLink, OidcSettings, PasswordError, People,
    audit_log_files, store_path,
};
pub use data::{GatewayChange, ProgramHost, QuestionAddress};
pub use error::PageError;
pub use instance::{
    DashboardInstance, DashboardState, InstanceError, StopOutcome, find_instance, stop_instance,
};
pub use settings::{DashboardSettings, SettingsError};
