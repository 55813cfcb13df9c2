use super::*;

fn messages(history: &History) -> Vec<String> {
    history.messages().collect()
}

#[test]
fn messages_are_there_for_the_next_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/down/history.jsonl");
    let mut history = History::open(&path).unwrap();
    assert!(history.is_empty());
    history.add("one").unwrap();
    history.add("two\nlines \u{2028} \"quoted\"").unwrap();
    let again = History::open(&path).unwrap();
    assert_eq!(messages(&again), ["one", "two\nlines \u{2028} \"quoted\""]);
}

#[test]
fn a_message_twice_in_a_row_is_one_and_blanks_are_none() {
    let mut history = History::in_memory();
    for text in ["one", "one", " \n", "", "two", "one"] {
        history.add(text).unwrap();
    }
    assert_eq!(messages(&history), ["one", "two", "one"]);
}

#[test]
fn pastes_are_one_thing_in_the_file_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history");
    let mut history = History::open(&path).unwrap();
    let mut entry = Fragment::plain("ä ");
    entry.push(&Fragment::pasted(&"wörd\n".repeat(30)));
    history.keep(&entry);
    assert!(history.take_error().is_none());
    let again = History::open(&path).unwrap();
    assert_eq!(again.get(0), Some(&entry));
    assert_eq!(again.get(0).unwrap().shown(), "ä [pasted 30 lines]");
}

#[test]
fn memory_is_bounded_by_number_and_by_size() {
    let mut history = History::in_memory();
    for number in 0..1_500 {
        history.add(&number.to_string()).unwrap();
    }
    assert_eq!(history.len(), MOST_ENTRIES);
    assert_eq!(history.messages().next().unwrap(), "500");
    for c in ["a", "b", "c"] {
        history.add(&c.repeat(1 << 20)).unwrap();
    }
    assert_eq!(history.len(), 2);
    history.add(&"d".repeat(MOST_BYTES + 1)).unwrap();
    assert_eq!(history.len(), 2, "one that drives out all others is not kept");
}

#[test]
fn what_cannot_be_written_is_remembered_and_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let mut history = History::in_memory();
    history.file = Some(File::at(&blocked.join("history")));
    history.keep(&Fragment::plain("one"));
    assert_eq!(messages(&history), ["one"]);
    assert!(history.take_error().is_some());
    assert!(history.take_error().is_none());
}

#[test]
fn a_directory_in_the_place_of_the_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert!(History::open(dir.path()).is_err());
}

#[test]
fn small_letters_find_any_and_capitals_only_themselves() {
    assert_eq!(find_text("see Cargo.toml", "cargo"), Some(4..9));
    assert_eq!(find_text("see Cargo.toml", "Cargo"), Some(4..9));
    assert_eq!(find_text("see cargo.toml", "Cargo"), None);
    assert_eq!(find_text("ÄÖÜ", "öü"), Some(2..6));
    assert_eq!(find_text("aab", "ab"), Some(1..3));
    assert_eq!(find_text("a", "ab"), None);
    // A capital that becomes two letters is found by both.
    assert_eq!(find_text("x\u{130}y", "i\u{307}y"), Some(1..4));
}

#[test]
fn searches_go_both_ways_from_where_they_are() {
    let mut history = History::in_memory();
    for text in ["alpha", "beta", "alphabet"] {
        history.add(text).unwrap();
    }
    let at = |found: Option<HistoryMatch>| found.map(|found| found.at);
    assert_eq!(at(history.older("alpha", 2)), Some(2));
    assert_eq!(at(history.older("alpha", 1)), Some(0));
    assert_eq!(at(history.older("alpha", 99)), Some(2));
    assert_eq!(at(history.newer("alpha", 1)), Some(2));
    assert_eq!(at(history.newer("alpha", 3)), None);
    assert_eq!(at(history.older("", 2)), None);
    assert_eq!(at(History::in_memory().older("a", 0)), None);
}
