use std::io::{Seek, Write};
use std::sync::atomic::Ordering;

use vestal_wire::FaultCode;

use super::*;
use crate::files::testing::NEVER;
use vestal_tree::Case;

#[derive(Default)]
struct Taken {
    matched: Vec<(u64, Vec<u8>)>,
    passed: Vec<u64>,
    all: bool,
}

impl LineSink for Taken {
    fn matched(&mut self, number: u64, text: &[u8]) -> ControlFlow<()> {
        self.matched.push((number, text.to_vec()));
        ControlFlow::Continue(())
    }

    fn passed(&mut self, number: u64, _: &[u8]) {
        self.passed.push(number);
    }

    fn wants_passed(&self) -> bool {
        self.all
    }
}

fn file_of(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file
}

fn searcher(expression: &str) -> LineSearcher {
    LineSearcher::new(Pattern::new(expression, Case::Exact).unwrap())
}

fn matches(expression: &str, content: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut taken = Taken::default();
    searcher(expression).search(&file_of(content), &mut taken, &NEVER).unwrap();
    taken.matched
}

fn numbers(expression: &str, content: &[u8]) -> Vec<u64> {
    matches(expression, content).into_iter().map(|(number, _)| number).collect()
}

#[test]
fn lines_are_numbered_and_come_without_their_ends() {
    let found = matches("o", b"one\r\n\ntwo\nthree\nfour");
    assert_eq!(found, [(1, b"one".to_vec()), (3, b"two".to_vec()), (5, b"four".to_vec())]);
}

#[test]
fn anchors_mean_the_line() {
    let text = b"foo\r\nfoo bar\nbar foo\n";
    assert_eq!(numbers("^foo", text), [1, 2]);
    assert_eq!(numbers("foo$", text), [1, 3]);
    assert_eq!(numbers("^foo$", text), [1]);
    assert_eq!(numbers(r"\Abar", text), [3]);
    assert_eq!(numbers("^$", b"\n\nx\n\r\n"), [1, 2, 4]);
    assert_eq!(numbers("", b"a\nb"), [1, 2]);
}

#[test]
fn nothing_matches_across_lines() {
    assert_eq!(numbers(r"a\s+b", b"a\nb\na b\n"), [3]);
    assert_eq!(numbers(r"(?s)a.*c", b"a\nb\nc\nabc\n"), [4]);
    assert_eq!(numbers(r"[^x]y", b"x\ny\nzy\n"), [3]);
}

#[test]
fn every_line_is_handed_on_where_all_are_wanted() {
    let mut taken = Taken { all: true, ..Taken::default() };
    searcher("b").search(&file_of(b"a\nb\nc\nd"), &mut taken, &NEVER).unwrap();
    assert_eq!((taken.passed, taken.matched.len()), (vec![1, 3, 4], 1));
}

#[test]
fn files_of_many_pieces_are_searched_without_a_seam() {
    let mut content = Vec::new();
    for n in 1..=60_000_u64 {
        writeln!(content, "line {n} {}", if n % 1000 == 0 { "needle" } else { "hay" }).unwrap();
    }
    for expression in ["needle", "needle$"] {
        let wanted: Vec<u64> = (1..=60).map(|n| n * 1000).collect();
        assert_eq!(numbers(expression, &content), wanted);
    }
}

#[test]
fn a_nul_near_the_start_makes_a_file_binary() {
    let mut taken = Taken::default();
    let content = searcher("x").search(&file_of(b"x\nx\0x\n"), &mut taken, &NEVER).unwrap();
    assert_eq!((content, taken.matched.len()), (SearchedContent::Binary, 0));
    let mut late = vec![b'x'; BINARY_CHECK];
    late.extend_from_slice(b"\n\0\n");
    assert_eq!(numbers("x", &late), [1]);
}

#[test]
fn a_line_of_any_length_is_searched_in_bounded_memory() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"first\nstart of it ").unwrap();
    let piece = vec![b'-'; 1 << 20];
    for _ in 0..6 {
        file.write_all(&piece).unwrap();
    }
    file.write_all(b"needle\r\nlast needle\n").unwrap();
    file.rewind().unwrap();
    for (expression, wanted) in [
        ("needle", vec![2, 3]),
        ("needle$", vec![2, 3]),
        ("^start", vec![2]),
        ("^needle|^-", vec![]),
        ("-$", vec![]),
        ("start.*of", vec![2]),
        ("first|last", vec![1, 3]),
    ] {
        let mut searcher = searcher(expression);
        let mut taken = Taken::default();
        searcher.search(&file, &mut taken, &NEVER).unwrap();
        let found: Vec<u64> = taken.matched.iter().map(|(number, _)| *number).collect();
        assert_eq!(found, wanted, "{expression}");
        assert!(taken.matched.iter().all(|(_, text)| text.len() <= MAX_TEXT));
        assert!(searcher.buffer.capacity() <= 2 * WINDOW);
    }
}

#[test]
fn a_match_across_two_windows_of_a_long_line_is_found() {
    for shift in [0, 1, 5, 20] {
        let mut content = vec![b'-'; WINDOW + PIECE - shift];
        content.extend_from_slice(b"needle");
        content.extend(vec![b'-'; 3 * WINDOW]);
        assert_eq!(numbers("needle", &content), [1]);
    }
}

#[test]
fn a_long_line_at_the_end_of_a_file_needs_no_end() {
    let mut content = b"a\n".to_vec();
    content.extend(vec![b'-'; 2 * WINDOW]);
    assert_eq!(numbers("-$", &content), [2]);
    content.push(b'\n');
    assert_eq!(numbers("-$", &content), [2]);
    content.extend_from_slice(b"b");
    assert_eq!(numbers("a|b", &content), [1, 3]);
}

#[test]
fn a_search_stops_within_a_file_when_it_is_cancelled() {
    struct Cancelling<'a>(&'a AtomicBool, u64);
    impl LineSink for Cancelling<'_> {
        fn matched(&mut self, _: u64, _: &[u8]) -> ControlFlow<()> {
            self.0.store(true, Ordering::Relaxed);
            self.1 += 1;
            ControlFlow::Continue(())
        }

        fn passed(&mut self, _: u64, _: &[u8]) {}

        fn wants_passed(&self) -> bool {
            false
        }
    }
    let cancelled = AtomicBool::new(false);
    let mut lines = Cancelling(&cancelled, 0);
    let file = file_of(&b"x\n".repeat(1 << 20));
    match searcher("x").search(&file, &mut lines, &cancelled) {
        Err(OpError::Fault(fault)) => assert_eq!(fault.code, FaultCode::Cancelled),
        other => panic!("{other:?}"),
    }
    assert!(lines.1 <= 2 * PIECE as u64);
}
