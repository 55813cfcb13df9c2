//! What is never mapped, whatever a plan says.

use vestal_wire::{IdRange, Mapping, Users};

use crate::failure::{Failure, Step};

/// Refuses users that a sandbox must not have: the host's root above all.
pub(crate) fn check(users: &Users) -> Result<(), Failure> {
    check_ranges("user", &users.uids)?;
    check_ranges("group", &users.gids)?;
    if users.uids.iter().any(|range| range.outside == 0) {
        return Err(refused("user 0 of the host is not to be in a sandbox".into()));
    }
    // Some users' own group is group 0, which is nothing more than they have.
    if users.mapping != Mapping::Own && users.gids.iter().any(|range| range.outside == 0) {
        return Err(refused("group 0 of the host is not to be in a sandbox".into()));
    }
    Ok(())
}

fn check_ranges(what: &str, ranges: &[IdRange]) -> Result<(), Failure> {
    if !ranges.iter().any(|range| range.inside == 0) {
        return Err(refused(format!("the sandbox has no {what} 0")));
    }
    for range in ranges {
        let fits = |first: u32| first.checked_add(range.count).is_some();
        if range.count == 0 || !fits(range.inside) || !fits(range.outside) {
            return Err(refused(format!("{range:?} is no range of {what}s")));
        }
    }
    Ok(())
}

fn refused(message: String) -> Failure {
    Failure::new(Step::Plan, message)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
