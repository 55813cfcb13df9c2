//! What makes a command dangerous, one rule for each kind of harm.

mod files;
mod hardline;
mod send;
mod system;
mod work;

use super::invocation::ProgramRun;

pub(super) use hardline::{FORK_BOMB, HARDLINE};

/// A kind of harm.
pub(super) struct HarmRule {
    /// Its name, under which approvals are kept.
    pub(super) name: &'static str,
    /// What the harm is, to be read after "this".
    pub(super) reason: &'static str,
    /// Reports whether a command does it.
    pub(super) applies: fn(&ProgramRun<'_>) -> bool,
}

/// Returns the rules for what a person is asked about.
pub(super) fn dangerous() -> impl Iterator<Item = &'static HarmRule> {
    files::RULES.iter().chain(system::RULES).chain(work::RULES).chain(send::RULES)
}

/// Returns every name that a rule has, those of `walk.rs` included.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let walked = super::walk::RULES.into_iter().chain(super::understand::RULES);
    dangerous().map(|rule| rule.name).chain(walked)
}
