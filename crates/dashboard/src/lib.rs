#![doc = include_str!("../README.md")]

mod app;
mod assets;
mod auth;
mod data;
mod error;
mod events;
pub mod gate;
mod instance;
mod pages;
pub mod panics;
mod server;
mod settings;
mod shell;
mod watch;

pub use app::{Dashboard, ServeError};
pub use auth::{
    AuthStore, LinkError, MIN_PASSWORD, NewLink, PasswordError, audit_log_files, store_path,
};
pub use data::ProgramHost;
pub use error::PageError;
pub use instance::{
    DashboardInstance, DashboardState, InstanceError, StopOutcome, find_instance, stop_instance,
};
pub use settings::{DashboardSettings, SettingsError};
