use vestal_wire::{IdRange, Mapping, UserMapping};

use super::*;

fn range(inside: u32, outside: u32, count: u32) -> IdRange {
    IdRange { inside, outside, count }
}

fn users(uid: IdRange, gid: IdRange, mapping: Mapping) -> UserMapping {
    UserMapping { uids: vec![uid], gids: vec![gid], mapping }
}

#[test]
fn the_hosts_root_is_refused_however_it_is_asked_for() {
    let fine = range(0, 1000, 1);
    for mapping in [Mapping::Own, Mapping::Privileged] {
        assert!(check(&users(fine, fine, mapping.clone())).is_ok());
        assert!(check(&users(range(0, 0, 1), fine, mapping.clone())).is_err());
        let hidden = UserMapping {
            uids: vec![fine, range(1, 0, 65_535)],
            gids: vec![fine],
            mapping: mapping.clone(),
        };
        assert!(check(&hidden).is_err());
    }
    assert!(check(&users(fine, range(0, 0, 1), Mapping::Privileged)).is_err());
    assert!(check(&users(fine, range(0, 0, 1), Mapping::Own)).is_ok());
}

#[test]
fn what_is_no_range_is_refused() {
    let fine = range(0, 1000, 1);
    let wrong = [range(0, 1000, 0), range(0, u32::MAX, 2), range(1, 1000, 1)];
    for wrong in wrong {
        assert!(check(&users(wrong, fine, Mapping::Own)).is_err(), "{wrong:?}");
        assert!(check(&users(fine, wrong, Mapping::Own)).is_err(), "{wrong:?}");
    }
    assert!(check(&UserMapping { uids: vec![], gids: vec![fine], mapping: Mapping::Own }).is_err());
}

#[test]
fn numbers_of_the_sandbox_are_found_on_the_host() {
    let range = |inside, outside, count| IdRange { inside, outside, count };
    let ranges = [range(0, 1000, 1), range(1, 100_000, 10)];
    assert_eq!(host_id(&ranges, 0), Some(1000));
    assert_eq!(host_id(&ranges, 5), Some(100_004));
    assert_eq!(host_id(&ranges, 11), None);
}
