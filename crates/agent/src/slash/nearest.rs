//! "Did you mean …".

/// Returns the candidate that was most likely meant: the one it is the
/// beginning of, else one that a slip or two turned into it.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let mut best: Option<(usize, &str)> = None;
    let mut begun: Option<&str> = None;
    for candidate in candidates {
        let lower = candidate.to_lowercase();
        if name.chars().count() >= 2 && lower.starts_with(&name) && begun.is_none() {
            begun = Some(candidate);
        }
        let distance = strsim::damerau_levenshtein(&name, &lower);
        if distance <= tolerance(&name, &lower) && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    match (best, begun) {
        // One letter off is nearer than a beginning.
        (Some((0 | 1, candidate)), _) => Some(candidate),
        (_, Some(begun)) => Some(begun),
        (best, None) => best.map(|(_, candidate)| candidate),
    }
}

/// Returns how many slips may be between two names; of one letter, none: it
/// would be another.
fn tolerance(name: &str, candidate: &str) -> usize {
    match name.chars().count().min(candidate.chars().count()) {
        0 | 1 => 0,
        shorter => (shorter / 3).clamp(1, 3),
    }
}
