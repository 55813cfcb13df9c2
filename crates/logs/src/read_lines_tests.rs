//! Lines across rotations, beside a writer.

use super::*;
use crate::writer::LogWriter;

fn read(reader: &mut LogReader) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        lines.push(match reader.next_line().unwrap() {
            NextLine::Line(line) => String::from_utf8_lossy(line).into_owned(),
            NextLine::Gap => "GAP".to_owned(),
            NextLine::End => return lines,
        });
    }
}

fn write(log: &mut LogWriter, line: &str) {
    log.write(format!("{line}\n").as_bytes()).unwrap();
}

#[test]
fn a_reader_follows_across_any_number_of_rotations() {
    let dir = tempfile::tempdir().unwrap();
    let files = LogFiles::new(dir.path().join("log"), 1000, 9);
    let mut log = LogWriter::new(files.clone());
    let mut reader = LogReader::new(files);
    assert_eq!(read(&mut reader), Vec::<String>::new());
    let (mut written, mut seen) = (Vec::new(), Vec::new());
    // Some files get full between two looks, never all ten.
    for round in 0..60 {
        for n in 0..round * 3 {
            let line = format!("round {round} line {n}");
            write(&mut log, &line);
            written.push(line);
        }
        seen.extend(read(&mut reader));
    }
    assert_eq!(seen, written);
}

#[test]
fn what_was_removed_before_it_was_read_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let files = LogFiles::new(dir.path().join("log"), 16, 2);
    let mut log = LogWriter::new(files.clone());
    let mut reader = LogReader::new(files.clone());
    write(&mut log, "first");
    assert_eq!(read(&mut reader), ["first"]);
    (0..100).for_each(|n| write(&mut log, &format!("line {n}")));
    let seen = read(&mut reader);
    // What was written to the file that is open is still there.
    let last = ["line 95", "line 96", "line 97", "line 98", "line 99"];
    assert_eq!(
        (&seen[..2], &seen[2..]),
        (&["line 0", "GAP"].map(str::to_owned)[..], &last.map(str::to_owned)[..])
    );
    // One that somebody empties is read from its beginning.
    std::fs::OpenOptions::new().write(true).open(files.path()).unwrap().set_len(0).unwrap();
    assert_eq!(read(&mut reader), ["GAP"]);
    write(&mut log, "again");
    assert_eq!(read(&mut reader), ["again"]);
}

#[test]
fn a_file_that_moves_into_a_gap_while_it_is_looked_for_is_not_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let files = LogFiles::new(dir.path().join("log"), 16, 3);
    // A crash has left no number 2.
    for (number, text) in [(3, "one\n"), (1, "two\n"), (0, "three, and it is full\n")] {
        std::fs::write(files.numbered(number), text).unwrap();
    }
    let mut reader = LogReader::new(files.clone());
    assert!(matches!(reader.next_line().unwrap(), NextLine::Line(b"one")));
    write(&mut LogWriter::new(files), "four");
    assert_eq!(read(&mut reader), ["two", "three, and it is full", "four"]);
}

#[test]
fn a_line_without_end_comes_in_pieces_and_one_that_is_not_ended_waits() {
    let dir = tempfile::tempdir().unwrap();
    let files = LogFiles::new(dir.path().join("log"), 1 << 30, 1);
    std::fs::write(files.path(), "x".repeat(3 * LONGEST)).unwrap();
    let mut reader = LogReader::new(files.clone());
    let seen: Vec<usize> = read(&mut reader).iter().map(String::len).collect();
    assert_eq!(seen, [LONGEST, LONGEST]);
    assert!(reader.buffer.capacity() <= 4 * LONGEST, "{}", reader.buffer.capacity());
    let mut file = std::fs::OpenOptions::new().append(true).open(files.path()).unwrap();
    std::io::Write::write_all(&mut file, b"y\n").unwrap();
    let rest: Vec<usize> = read(&mut reader).iter().map(String::len).collect();
    assert_eq!(rest, [LONGEST, 1]);
}
