//! "Did you mean …".

/// Returns the candidate a mistyped name most likely meant.
pub(crate) fn closest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= tolerance(name, candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn tolerance(name: &str, candidate: &str) -> usize {
    (name.chars().count().min(candidate.chars().count()) / 3).clamp(1, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_different_name_is_not() {
        assert_eq!(closest("wbe", ["api", "web"]), Some("web"));
        assert_eq!(closest("defualt", ["default"]), Some("default"));
        assert_eq!(closest("web", ["database", "x"]), None);
        assert_eq!(closest("web", []), None);
    }
}
