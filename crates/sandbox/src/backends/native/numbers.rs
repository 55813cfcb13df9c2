//! Whether this process has the numbers that users of a sandbox are to have.
//!
//! Root of a container, or of any user namespace, is root over the numbers that
//! it was given, and often these are few.

use vestal_wire::{IdRange, Mapping, Users};

use crate::backend::BackendError;

/// Refuses users that only root of the whole machine could have.
pub(super) fn check(users: &Users) -> Result<(), BackendError> {
    if users.mapping != Mapping::Privileged {
        return Ok(());
    }
    for (file, ranges) in [("/proc/self/uid_map", &users.uids), ("/proc/self/gid_map", &users.gids)]
    {
        let map =
            std::fs::read_to_string(file).map_err(BackendError::io(format!("read {file}")))?;
        if let Some(range) = ranges.iter().find(|range| !covers(&map, **range)) {
            return Err(BackendError::Advised {
                problem: format!(
                    "this root is one of a container or user namespace that lacks the users {} to {} ({file})",
                    range.outside,
                    u64::from(range.outside) + u64::from(range.count) - 1,
                ),
                advice: "run vestal as an ordinary user there, or outside; or use the backend docker or local"
                    .to_owned(),
            });
        }
    }
    Ok(())
}

/// Returns whether a map of the kernel's gives this process all of a range.
fn covers(map: &str, range: IdRange) -> bool {
    let (first, end) =
        (u64::from(range.outside), u64::from(range.outside) + u64::from(range.count));
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u64>);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(own)), Some(Ok(_)), Some(Ok(count))) => own <= first && end <= own + count,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: IdRange = IdRange { inside: 0, outside: 1_879_048_192, count: 65_536 };

    #[test]
    fn root_of_the_machine_has_all_numbers_and_root_of_a_container_has_not() {
        assert!(covers("         0          0 4294967295\n", RANGE));
        for few in ["0 1000 1\n", "0 100000 65536\n", "0 0 1879113727\n", "", "garbage\n"] {
            assert!(!covers(few, RANGE), "{few:?}");
        }
    }

    #[test]
    fn who_maps_nobody_but_himself_needs_no_further_numbers() {
        let own = IdRange { inside: 0, outside: 1, count: 1 };
        let users = Users { uids: vec![own], gids: vec![own], mapping: Mapping::Own };
        assert!(check(&users).is_ok());
    }
}
