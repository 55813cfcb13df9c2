use std::fs::File;

use super::*;

#[test]
fn what_cannot_be_read_is_a_terminal_that_is_gone() {
    // A directory is always ready, and reading it always fails.
    let (reader, mut read) = Reader::start(File::open("/").unwrap().into()).unwrap();
    reader.go_on();
    assert_eq!(read.blocking_recv(), None);
    // Nothing waits for a thread that has ended.
    let begun = Instant::now();
    reader.pause().unwrap();
    reader.go_on();
    reader.end().unwrap();
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn what_was_pasted_before_the_terminal_went_away_is_told() {
    let (terminal, person) = rustix::pipe::pipe().unwrap();
    let (reader, mut read) = Reader::start(terminal).unwrap();
    rustix::io::write(&person, b"a\x1b[200~words that were cut o").unwrap();
    drop(person);
    reader.go_on();
    let told: Vec<_> = std::iter::from_fn(|| read.blocking_recv()).collect();
    let key = Input::Key(crate::key::Key::plain(crate::key::KeyCode::Char('a')));
    assert_eq!(told, [key, Input::Paste("words that were cut o".to_owned())]);
}
