//! Dispatchers and workers as real processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::cloned_ref_to_slice_refs, reason = "whole values read better")]

mod boards;
mod crashes;
mod dry_run;
mod exits;
mod hosts;
mod launches;
mod places;
mod stage;
mod stops;
mod watching;
