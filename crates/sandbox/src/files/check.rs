//! What a guest says of files, held against what is possible.

use vestal_wire::{DirectoryEntry, Found, Match, Metadata, SearchQuery};

use crate::client::Violation;

/// Longest name of a file on Linux.
const NAME_MAX: usize = 255;

/// Longest line of a search result, in bytes.
const MAX_LINE: usize = 2_000;

/// Checks one page of a directory.
pub(super) fn page(entries: &[DirectoryEntry], more: bool, limit: u32) -> Result<(), Violation> {
    if entries.len() > limit as usize {
        return Err(Violation::Claim("more entries than were asked for"));
    }
    if more && entries.is_empty() {
        return Err(Violation::Claim("more entries to come, but none on the page"));
    }
    if !entries.iter().all(|entry| is_name(&entry.name)) {
        return Err(Violation::Claim("an entry whose name cannot be one"));
    }
    Ok(())
}

/// Checks the description of a file.
pub(super) fn metadata(metadata: &Metadata) -> Result<(), Violation> {
    if metadata.path.first() != Some(&b'/') || metadata.path.contains(&0) {
        return Err(Violation::Claim("a file whose path is not absolute"));
    }
    if metadata.target.as_ref().is_some_and(|target| target.contains(&0)) {
        return Err(Violation::Claim("a link whose target cannot be one"));
    }
    Ok(())
}

/// Checks the result of a search.
pub(super) fn found(found: &Found, query: &SearchQuery) -> Result<(), Violation> {
    let hits = found.matches.iter().filter(|hit| !hit.context).count() as u64;
    let around = found.matches.len() as u64 - hits;
    let limit = u64::from(query.limit);
    if hits > limit || around > limit.saturating_mul(2).saturating_mul(u64::from(query.context)) {
        return Err(Violation::Claim("more results than were asked for"));
    }
    if !found.matches.iter().all(is_possible) {
        return Err(Violation::Claim("a result that cannot be one"));
    }
    Ok(())
}

fn is_name(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Below the root means below it; the root itself, if it is a file, has the
/// empty path.
fn is_possible(hit: &Match) -> bool {
    let below = hit.path.is_empty() || hit.path.split(|byte| *byte == b'/').all(is_name);
    below && hit.text.len() <= MAX_LINE
}
