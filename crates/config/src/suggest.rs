//! "Did you mean …".

/// Returns the candidate a mistyped name most likely meant.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    // Nobody mistypes a name of hundreds of characters, and comparing is quadratic.
    if name.len() > 128 {
        return None;
    }
    candidates
        .into_iter()
        .map(|candidate| (distance(&name, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= tolerance(&name, candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Reports whether a name is so near another that it was hardly meant for anything else: stricter
/// than [`closest`] is for a hint, for short names have many neighbours.
pub(crate) fn is_slip(name: &str, meant: &str) -> bool {
    let (name, meant) = (name.to_ascii_lowercase(), meant.to_ascii_lowercase());
    // Of a short name a letter too many, one that is missing, or two in the wrong order: another
    // letter in place of one makes another word.
    let slips = if meant.len() < 4 { 1 } else { (meant.len() / 4).min(3) };
    if name.len() > meant.len() + slips || distance(&name, &meant) > slips {
        return false;
    }
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    meant.len() >= 4 || name.len() != meant.len() || letters(&name) == letters(&meant)
}

fn distance(a: &str, b: &str) -> usize {
    strsim::damerau_levenshtein(a, b)
}

fn tolerance(name: &str, candidate: &str) -> usize {
    (name.len().min(candidate.len()) / 4).clamp(1, 3)
}

/// Returns the known key a name most likely meant: a misspelt one, or one of
/// another section (`timeout` or `agent.timeout` for `terminal.timeout`), or a
/// map of which the name is an entry.
pub(crate) fn closest_key(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    let own = name.rsplit('.').next().unwrap_or(name);
    let is_below =
        |name: &str, key: &str| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
    // A section that is also a key is no map of which the name could be an entry.
    let is_map = |key: &&'static str| !known.iter().any(|other| is_below(other, key));
    let parent = known.iter().copied().filter(is_map).find(|key| is_below(name, key));
    parent.or_else(|| closest(name, known.iter().copied())).or_else(|| {
        let lasts = known.iter().copied().map(last);
        let found = closest(own, lasts)?;
        known.iter().copied().find(|key| last(key) == found)
    })
}
