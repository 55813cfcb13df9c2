//! `SQLite` files that many processes share. See the crate's README for the contract.

mod error;
mod layout;
mod make;
mod patience;

pub use error::{BUSY_TIMEOUT, Error, explain, is_busy};
pub use layout::Layout;
pub use make::{is_there, make};
pub use patience::Patience;

/// The result of what is done with a file.
pub type Result<T> = std::result::Result<T, Error>;
