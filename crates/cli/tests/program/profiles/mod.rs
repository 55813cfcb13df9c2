//! `vestal profile`, and what every other command makes of profiles.

mod choice;
mod docker;
mod isolation;
mod names;
mod removal;

use crate::support::ProgramFixture;

/// Makes a profile.
#[track_caller]
fn create(fixture: &ProgramFixture, name: &str) {
    fixture.vestal(["profile", "create", name]).exits(0);
}

/// Deletes profiles with their sandboxes, so that nothing of them runs on.
#[track_caller]
fn delete(fixture: &ProgramFixture, names: &[&str]) {
    for name in names {
        fixture.vestal(["profile", "delete", "-y", name]).exits(0);
    }
}
