//! Dispatchers and workers as real processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::cloned_ref_to_slice_refs, reason = "whole values read better")]

mod crashes;
mod fixture;
mod hosts;
mod places;
mod stops;
mod watching;
mod workers;
