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
