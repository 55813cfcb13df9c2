//! Processes that hear of what others do.

use crate::{lines, worker};

#[test]
fn a_process_hears_of_what_another_committed_at_full_durability() {
    let dir = tempfile::tempdir().unwrap();
    let mut listener = worker(dir.path(), &["listen"]).spawn().unwrap();
    let mut heard = lines(&mut listener);
    assert_eq!(heard.next().unwrap().unwrap(), "listening");
    for number in 1..=20 {
        let output = worker(dir.path(), &["create", "1"]).output().unwrap();
        assert!(output.status.success());
        // It may hear of a commit more than once, and never of none.
        let mut counts = heard.by_ref().map(|line| line.unwrap().parse::<u32>().unwrap());
        assert_eq!(counts.find(|count| *count >= number), Some(number));
    }
    listener.kill().unwrap();
    listener.wait().unwrap();
}
