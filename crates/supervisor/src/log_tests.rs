//! Rotation and lines.

use super::*;

/// Returns the lines of all files, oldest first, without their times.
fn lines(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for number in (0..FILES).rev() {
        let Ok(text) = std::fs::read_to_string(rotated(dir, number)) else { continue };
        assert!(text.ends_with('\n'));
        all.extend(text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()));
    }
    all
}

#[test]
fn no_line_is_lost_or_torn_by_rotation_and_there_are_ten_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = LogFiles::new(dir.path().into(), 1000);
    for n in 0..1000 {
        log.write(format!("line {n}").as_bytes());
    }
    let found = lines(dir.path());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), FILES as usize);
    // The oldest are gone, the rest follow each other to the last one.
    let first = 1000 - found.len();
    assert_eq!(found, (first..1000).map(|n| format!("line {n}")).collect::<Vec<_>>());
    assert!(found.len() > 200, "{}", found.len());
    for number in 0..FILES {
        assert!(rotated(dir.path(), number).metadata().unwrap().len() <= 1000);
    }
}

#[test]
fn a_line_that_a_crash_cut_off_is_ended_before_the_next() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(CURRENT), "2026-01-01T00:00:00.000Z cut o").unwrap();
    LogFiles::new(dir.path().into(), 1000).write(b"next");
    assert_eq!(lines(dir.path()), ["cut o", "next"]);
}

#[test]
fn lines_that_cannot_be_written_are_counted_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (there, away) = (dir.path().join("log"), dir.path().join("away"));
    let mut log = LogFiles::new(there.clone(), 1000);
    log.write(b"one");
    // A file where the directory should be cannot hold one.
    log.open = None;
    std::fs::rename(&there, &away).unwrap();
    std::fs::write(&there, "").unwrap();
    log.write(b"two");
    log.write(b"three");
    std::fs::remove_file(&there).unwrap();
    std::fs::rename(&away, &there).unwrap();
    log.write(b"four");
    assert_eq!(lines(&there), ["one", "supervisor: 2 lines before this one are lost", "four"]);
}

#[test]
fn a_line_without_end_becomes_pieces_of_limited_size() {
    let mut buffer = LineBuffer::default();
    let mut seen: Vec<usize> = Vec::new();
    for _ in 0..100 {
        buffer.push(&[b'x'; 10_000], |line| seen.push(line.len()));
        assert!(buffer.bytes.capacity() <= 2 * MAX_LINE);
    }
    buffer.push(b"\n", |line| seen.push(line.len()));
    assert_eq!(seen.iter().sum::<usize>(), 1_000_000);
    assert!(seen[..seen.len() - 1].iter().all(|length| *length == MAX_LINE));
}

#[test]
fn lines_are_the_same_however_the_bytes_come() {
    let text = b"one\n\ntwo\nthree";
    for size in 1..text.len() {
        let (mut buffer, mut seen) = (LineBuffer::default(), Vec::new());
        let mut note = |line: &[u8]| seen.push(String::from_utf8_lossy(line).into_owned());
        text.chunks(size).for_each(|chunk| buffer.push(chunk, &mut note));
        buffer.finish(&mut note);
        assert_eq!(seen, ["one", "", "two", "three"]);
    }
}
