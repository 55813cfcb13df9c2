//! What a sandbox is planned from: facts about a machine, and a snapshot of its `/etc`.
//!
//! A host that makes sandboxes of its own calls this as a library. For a machine that is reached
//! over a network the stage is put there, and answers the two commands:
//!
//! `vestal-stage survey` writes a [`MachineSurvey`](vestal_wire::survey::MachineSurvey) to its
//! standard output.
//! `vestal-stage etc DIR` makes a snapshot of `/etc` in DIR, which does not exist.

mod accounts;
pub mod etc;
pub mod facts;
mod report;
pub mod resolve;

pub use report::{MAX_REPORT, from_report};
pub(crate) use report::{main, main_of_etc};
