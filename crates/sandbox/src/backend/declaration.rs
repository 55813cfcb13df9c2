//! What a backend says of itself, before it has made anything.

use crate::spec::Tightening;

/// What holds for all instances of a backend. Whoever wants to know asks for one
/// of these facts, never for the name.
#[derive(Debug, Clone, Copy)]
pub struct Declaration {
    /// The backend's name, as in `terminal.backend`.
    pub name: &'static str,
    /// How far instances keep commands away from the host.
    pub confinement: Confinement,
    /// Whether instances are made from images.
    pub takes_images: bool,
    /// Whether looking at instances asks an engine, which may have to be
    /// started for it.
    pub asks_engine: bool,
    /// What it takes to apply changed settings to an instance.
    pub remedy: Remedy,
    /// Whose environment jobs start with.
    pub job_environment: JobEnvironment,
    /// The rule for each setting that shapes instances.
    pub tightening: fn(&str) -> Tightening,
}

/// How far instances keep commands away from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// Not at all.
    None,
    /// In a system of their own.
    Contained,
}

/// How changed settings reach an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// By stopping it: they are taken at the next start.
    Restart,
    /// By making a new one; files are kept.
    Recreate,
}

/// Whose environment jobs start with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnvironment {
    /// The caller's, stripped of secrets, each time anew.
    Callers,
    /// The instance's own.
    Guests,
}

/// Whether a backend works on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It works.
    Works {
        /// What is worth knowing about it.
        notes: Vec<String>,
    },
    /// It does not.
    Missing {
        /// What is missing.
        reason: String,
        /// What to do about it.
        advice: String,
    },
    /// A setting that it needs has a wrong value, so nobody can tell. Another
    /// backend is no answer to that: the setting has to be mended.
    Misconfigured {
        /// What is wrong.
        problem: String,
        /// What to do about it.
        advice: String,
    },
}
