//! How well a text fits what is typed to find it.

/// Returns how well `text` fits `query`; less is better, and nothing is no match. Case does not
/// count.
///
/// The last part of a path counts more than the directories before it, and a piece that is in the
/// text as it was typed more than letters that are spread over it.
pub fn match_rank(query: &str, text: &str) -> Option<MatchRank> {
    let query = query.to_lowercase();
    if query.is_empty() {
        return Some(MatchRank { kind: 0, length: text.len() });
    }
    let text = text.to_lowercase();
    let name = text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let kind = if name == query {
        0
    } else if name.starts_with(&query) || text.starts_with(&query) {
        1
    } else if name.contains(&query) {
        2
    } else if text.contains(&query) {
        3
    } else if is_spread_over(&query, name) {
        4
    } else if is_spread_over(&query, &text) {
        5
    } else {
        return None;
    };
    Some(MatchRank { kind, length: text.len() })
}

/// How well a text fits: the least is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatchRank {
    kind: u8,
    length: usize,
}

impl MatchRank {
    /// Reports whether only the letters are there, with others between them.
    pub fn is_spread(self) -> bool {
        self.kind >= SPREAD
    }
}

/// The first kind in which other letters are between those that were typed.
const SPREAD: u8 = 4;

/// Reports whether each word of `query` is somewhere in `text`. Case does not count.
pub fn contains_words(query: &str, text: &str) -> bool {
    let text = text.to_lowercase();
    query.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

/// Reports whether the characters of `query` are in `text`, in their order.
fn is_spread_over(query: &str, text: &str) -> bool {
    let mut characters = text.chars();
    query.chars().all(|wanted| characters.any(|c| c == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_directories_and_pieces_before_letters() {
        let paths = [
            "docs/main/old.txt",
            "src/domain.rs",
            "src/main.rs",
            "main",
            "src/my_admin.rs",
            "other.rs",
        ];
        let mut fitting: Vec<&str> =
            paths.into_iter().filter(|path| match_rank("MAIN", path).is_some()).collect();
        fitting.sort_by_key(|path| match_rank("MAIN", path));
        assert_eq!(
            fitting,
            ["main", "src/main.rs", "src/domain.rs", "docs/main/old.txt", "src/my_admin.rs"]
        );
    }

    #[test]
    fn all_words_must_be_there_in_any_order() {
        assert!(contains_words("wire FIX", "Fix the wire format"));
        assert!(!contains_words("wire fox", "Fix the wire format"));
        assert!(contains_words("  ", ""));
    }
}
