//! Names like one that is not there.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use vestal_sandbox::files::Files;
use vestal_wire::SearchQuery;

use super::place::Place;

/// Most names that are offered.
const OFFERED: usize = 5;

/// Most names of a directory that are looked at.
const LOOKED_AT: u32 = 2_000;

/// How alike names must be.
const ALIKE: f64 = 0.7;

/// Returns paths that may be meant by one that leads nowhere: names like it
/// beside it, else the same name elsewhere below the session's directory.
async fn names_like(files: &Files, place: &Place) -> Vec<String> {
    let (Some(dir), Some(name)) = (place.absolute.parent(), place.absolute.file_name()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy();
    if let Ok(page) = files.list(dir, LOOKED_AT).await {
        let names = page.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name));
        let beside = most_alike(&name, names.map(std::borrow::Cow::into_owned));
        if !beside.is_empty() {
            return beside.iter().map(|name| dir.join(name).to_string_lossy().into()).collect();
        }
    }
    let query = SearchQuery {
        root: b".".to_vec().into(),
        glob: Some(escaped(&name)),
        regex: None,
        ignore_case: true,
        hidden: false,
        ignored: false,
        skip: 0,
        limit: u32::try_from(OFFERED).unwrap_or(u32::MAX),
        context: 0,
    };
    let found = files.search(query).await.map(|found| found.matches).unwrap_or_default();
    let path =
        |bytes: &[u8]| Path::new(std::ffi::OsStr::from_bytes(bytes)).to_string_lossy().into();
    found.iter().map(|hit| path(&hit.path)).collect()
}

/// Says that a file is not there, and which ones may be meant.
pub(in crate::tools) async fn not_found(files: &Files, place: &Place) -> serde_json::Value {
    let similar = names_like(files, place).await;
    let mut error = format!("file not found: {}", place.shown());
    if !similar.is_empty() {
        error.push_str("; did you mean one of `similar_files`?");
    }
    serde_json::json!({ "error": error, "similar_files": similar })
}

/// Returns the names most like one, the best first.
fn most_alike(name: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let name = name.to_lowercase();
    let stem = |name: &str| name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned();
    let score = |other: &str| {
        let other = other.to_lowercase();
        let contains = name.len() > 2 && (other.contains(&name) || name.contains(&other));
        let same_stem = stem(&name) == stem(&other);
        let alike = strsim::normalized_damerau_levenshtein(&name, &other);
        if contains || same_stem { alike.max(ALIKE) } else { alike }
    };
    let mut alike: Vec<(f64, String)> =
        names.map(|other| (score(&other), other)).filter(|(score, _)| *score >= ALIKE).collect();
    alike.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    alike.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

/// Returns a glob that matches just this name.
fn escaped(name: &str) -> String {
    let mut glob = String::with_capacity(name.len());
    for character in name.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | ',') {
            glob.push('\\');
        }
        glob.push(character);
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_slip_or_another_ending_are_offered_best_first() {
        let names = ["main.rs", "mian.rs", "Main.py", "lib.rs", "mod.rs"].map(str::to_owned);
        assert_eq!(most_alike("main.rs", names.into_iter()), ["main.rs", "mian.rs", "Main.py"]);
    }

    #[test]
    fn no_more_than_five_are_offered() {
        let names = (0..20).map(|n| format!("file{n}.txt"));
        assert_eq!(most_alike("file.txt", names).len(), OFFERED);
    }
}
