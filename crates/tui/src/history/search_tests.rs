use super::*;

#[test]
fn small_letters_find_any_and_capitals_only_themselves() {
    assert_eq!(find("see Cargo.toml", "cargo"), Some(4..9));
    assert_eq!(find("see Cargo.toml", "Cargo"), Some(4..9));
    assert_eq!(find("see cargo.toml", "Cargo"), None);
    assert_eq!(find("ÄÖÜ", "öü"), Some(2..6));
    assert_eq!(find("aab", "ab"), Some(1..3));
    assert_eq!(find("a", "ab"), None);
    // A capital that becomes two letters is found by both.
    assert_eq!(find("x\u{130}y", "i\u{307}y"), Some(1..4));
}

#[test]
fn searches_go_both_ways_from_where_they_are() {
    let mut history = History::in_memory();
    for text in ["alpha", "beta", "alphabet"] {
        history.add(text).unwrap();
    }
    let at = |found: Option<Found>| found.map(|found| found.at);
    assert_eq!(at(history.older("alpha", 2)), Some(2));
    assert_eq!(at(history.older("alpha", 1)), Some(0));
    assert_eq!(at(history.older("alpha", 99)), Some(2));
    assert_eq!(at(history.newer("alpha", 1)), Some(2));
    assert_eq!(at(history.newer("alpha", 3)), None);
    assert_eq!(at(history.older("", 2)), None);
    assert_eq!(at(History::in_memory().older("a", 0)), None);
}
