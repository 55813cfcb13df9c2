use std::path::PathBuf;

use super::{LogPiece, StreamLog};

fn base() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("job").join("stdout");
    (dir, base)
}

/// Reads everything there is, with what is missing as `None`.
fn contents(log: &mut StreamLog, base: &std::path::Path) -> Vec<Option<u8>> {
    let mut all = Vec::new();
    let mut buf = [0; 1000];
    loop {
        match log.read(base, all.len() as u64, &mut buf) {
            LogPiece::Data(n) => all.extend(buf[..n].iter().copied().map(Some)),
            LogPiece::Gap(to) => all.resize(usize::try_from(to).unwrap(), None),
            LogPiece::End => return all,
        }
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from(i * 7 % 251).unwrap()).collect()
}

fn expected(bytes: &[u8], head: usize, tail: usize) -> Vec<Option<u8>> {
    let kept = |i: &usize| *i < head || *i >= bytes.len() - tail;
    (0..bytes.len()).map(|i| kept(&i).then(|| bytes[i])).collect()
}

#[test]
fn a_stream_without_bytes_makes_no_file() {
    let (dir, base) = base();
    let mut log = StreamLog::new(100);
    assert_eq!(log.read(&base, 0, &mut [0; 4]), LogPiece::End);
    assert!(!log.has_files());
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}

#[test]
fn head_and_tail_are_kept_and_the_rest_is_counted() {
    let (_dir, base) = base();
    let bytes = pattern(500_000);
    for piece in [1, 37, 4096, 65_536, 300_000] {
        let mut log = StreamLog::new(80_000);
        for part in bytes.chunks(piece) {
            log.append(&base, part);
        }
        assert_eq!(log.total(), 500_000);
        assert_eq!(log.omitted(), 420_000);
        assert_eq!(contents(&mut log, &base), expected(&bytes, 20_000, 60_000));
    }
}

#[test]
fn output_within_the_limit_is_kept_whole() {
    let (_dir, base) = base();
    let bytes = pattern(80_000);
    let mut log = StreamLog::new(80_000);
    log.append(&base, &bytes);
    assert_eq!(log.omitted(), 0);
    assert_eq!(contents(&mut log, &base), expected(&bytes, 80_000, 0));
}

#[test]
fn a_later_guest_finds_the_same_bytes() {
    let (_dir, base) = base();
    let bytes = pattern(300_000);
    let mut log = StreamLog::new(80_000);
    for part in bytes.chunks(1234) {
        log.append(&base, part);
    }
    drop(log);
    let mut log = StreamLog::recover(&base, 1, 0);
    assert_eq!((log.total(), log.omitted()), (300_000, 220_000));
    assert_eq!(contents(&mut log, &base), expected(&bytes, 20_000, 60_000));
}

#[test]
fn bytes_that_no_file_tells_of_count_as_left_out() {
    let (_dir, base) = base();
    let mut log = StreamLog::new(80_000);
    log.append(&base, b"some");
    drop(log);
    let mut log = StreamLog::recover(&base, 80_000, 10);
    assert_eq!((log.total(), log.omitted()), (10, 6));
    assert_eq!(
        contents(&mut log, &base)[..5],
        [b's', b'o', b'm', b'e'].map(Some).into_iter().chain([None]).collect::<Vec<_>>()
    );
}

#[test]
fn what_cannot_be_written_is_counted_and_what_follows_is_kept() {
    let (dir, base) = base();
    // A file in the place of the directory makes every write fail.
    let in_the_way = dir.path().join("job");
    std::fs::write(&in_the_way, "").unwrap();
    let mut log = StreamLog::new(80_000);
    log.append(&base, &pattern(1000));
    assert_eq!((log.total(), log.omitted()), (1000, 1000));
    std::fs::remove_file(&in_the_way).unwrap();
    log.append(&base, b"after");
    assert_eq!((log.total(), log.omitted()), (1005, 1000));
    let mut all = vec![None; 1000];
    all.extend(b"after".map(Some));
    assert_eq!(contents(&mut log, &base), all);
    drop(log);
    let mut log = StreamLog::recover(&base, 80_000, 1005);
    assert_eq!(log.omitted(), 1000);
    assert_eq!(contents(&mut log, &base), all);
}

#[test]
fn nothing_is_kept_where_nothing_may_be() {
    let (_dir, base) = base();
    let mut log = StreamLog::new(0);
    log.append(&base, b"bytes");
    assert_eq!((log.total(), log.omitted()), (5, 5));
    assert_eq!(log.read(&base, 0, &mut [0; 4]), LogPiece::Gap(5));
}
