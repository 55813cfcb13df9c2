//! Which of a model's tool calls run at the same time.

use crate::tool::Footprint;

/// Calls of one answer that run at the same time, at most.
const WIDEST: usize = 8;

/// Cuts calls into groups, in order: those of a group may run at the same time,
/// the groups one after the other.
pub(crate) fn groups(footprints: &[Footprint]) -> Vec<std::ops::Range<usize>> {
    let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, footprint) in footprints.iter().enumerate() {
        match groups.last_mut() {
            Some(group)
                if group.len() < WIDEST
                    && footprints[group.clone()]
                        .iter()
                        .all(|other| go_together(other, footprint)) =>
            {
                group.end = index + 1;
            }
            _ => groups.push(index..index + 1),
        }
    }
    groups
}

fn go_together(one: &Footprint, other: &Footprint) -> bool {
    match (one, other) {
        (Footprint::Reads, Footprint::Reads) | (Footprint::Siblings, Footprint::Siblings) => true,
        (Footprint::Writes(ours), Footprint::Writes(theirs)) => {
            ours.iter().all(|our| theirs.iter().all(|their| are_apart(our, their)))
        }
        _ => false,
    }
}

/// Reports whether two paths surely name different files. Only plainly
/// different last names count: links and relative paths are the sandbox's
/// matter, and waiting costs little.
fn are_apart(one: &str, other: &str) -> bool {
    let plain = |path: &str| !path.split('/').any(|part| part == "..");
    let last = |path: &str| {
        path.rsplit('/').find(|part| !part.is_empty() && *part != ".").map(str::to_owned)
    };
    plain(one) && plain(other) && last(one) != last(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Footprint::{Exclusive, Reads, Siblings};

    fn writes(path: &str) -> Footprint {
        Footprint::Writes(vec![path.to_owned()])
    }

    #[test]
    fn reads_run_together_and_what_may_change_anything_alone() {
        let groups = groups(&[Reads, Reads, Exclusive, Reads, Siblings, Siblings]);
        assert_eq!(groups, [0..2, 2..3, 3..4, 4..6]);
    }

    #[test]
    fn writes_run_together_only_to_files_that_are_surely_different() {
        assert_eq!(groups(&[writes("/a/x"), writes("/a/y"), Exclusive]), [0..2, 2..3]);
        for (one, other) in [("/a/x", "/a/x"), ("/a/x", "./x"), ("x", "/b/../a/x"), ("/a/x/", "x")]
        {
            assert_eq!(groups(&[writes(one), writes(other)]), [0..1, 1..2], "{one} {other}");
        }
    }

    #[test]
    fn a_group_is_never_wider_than_the_limit() {
        let groups = groups(&vec![Reads; 20]);
        assert_eq!(groups, [0..8, 8..16, 16..20]);
    }
}
