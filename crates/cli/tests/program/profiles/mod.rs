//! `vestal profile`, and what every other command makes of profiles.

mod choice;
mod docker;
mod isolation;
mod names;
mod removal;

use crate::support::World;

/// Makes a profile.
#[track_caller]
fn create(world: &World, name: &str) {
    world.vestal(["profile", "create", name]).exits(0);
}

/// Deletes profiles with their sandboxes, so that nothing of them runs on.
#[track_caller]
fn delete(world: &World, names: &[&str]) {
    for name in names {
        world.vestal(["profile", "delete", "-y", name]).exits(0);
    }
}
