//! `enclose`: builds a sandbox around a guest.
//!
//! Two processes cooperate. The one that was started stays on the host (`outside`):
//! it records the other one and waits until the sandbox is ready. The other one
//! (`first`) builds the sandbox around itself and becomes the guest.

mod build;
mod devices;
mod first;
mod outside;
mod sources;

pub use devices::{MASKED_PROC, READ_ONLY_PROC};
pub(crate) use outside::main;
