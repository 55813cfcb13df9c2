//! Names that mean something to Vestal, but not in this version.
//!
//! A file written for a fuller setup is told so, instead of being told that it
//! is full of mistakes.

/// Backends that are on the way.
pub(crate) const BACKENDS: &[&str] =
    &["ssh", "apptainer", "singularity", "modal", "daytona", "kubernetes"];
