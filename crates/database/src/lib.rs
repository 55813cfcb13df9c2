//! `SQLite` files that many processes share. See the crate's README for the contract.

mod connect;
mod error;
mod file;
mod layout;

pub use connect::{
    BUSY_TIMEOUT, BusyWait, Durability, begin_write, reader_options, writer_options,
};
pub use error::{Error, explain, is_busy};
pub use file::{Database, DatabaseOptions, WriteTransaction};
pub use layout::{Layout, is_there, make};

/// The result of what is done with a file.
pub type Result<T> = std::result::Result<T, Error>;
