use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread;

use super::*;

fn texts(file: &File) -> Vec<String> {
    file.read().unwrap().iter().map(|entry| entry.expanded().0).collect()
}

fn append(file: &mut File, text: &str) {
    file.append(&Fragment::plain(text)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Appends from several writers at once. Each opens the file for itself, so the
/// kernel keeps them apart as it does processes.
fn append_at_once(path: &Path, writers: usize, each: usize) {
    thread::scope(|scope| {
        for writer in 0..writers {
            scope.spawn(move || {
                let mut file = File { timeout: Duration::from_mins(1), ..File::at(path) };
                for number in 0..each {
                    // Of different lengths, some longer than a page.
                    let tail = "x".repeat((number * 97) % 6_000);
                    append(&mut file, &format!("{writer}:{number}:{tail}"));
                }
            });
        }
    });
}

/// The numbers that each writer left, in the order of the file.
fn by_writer(file: &File) -> BTreeMap<usize, Vec<usize>> {
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for text in texts(file) {
        let mut parts = text.split(':');
        let mut number = || parts.next().unwrap().parse().unwrap();
        let (writer, number): (usize, usize) = (number(), number());
        assert_eq!(text.len() - text.rfind(':').unwrap() - 1, (number * 97) % 6_000, "whole");
        found.entry(writer).or_default().push(number);
    }
    found
}

#[test]
fn writers_at_once_lose_and_mangle_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history");
    append_at_once(&path, 4, 60);
    let found = by_writer(&File::at(&path));
    assert_eq!(found.len(), 4);
    for numbers in found.values() {
        assert_eq!(*numbers, (0..60).collect::<Vec<_>>());
    }
}

#[test]
fn a_file_that_is_written_anew_loses_nothing_that_is_to_be_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history");
    fs::write(&path, "{\"text\":\"0:0:\"}\n".repeat(MOST_FILE_ENTRIES * 3)).unwrap();
    append_at_once(&path, 4, 300);
    let lines = fs::read_to_string(&path).unwrap();
    assert!(lines.lines().count() <= MOST_FILE_ENTRIES, "{}", lines.lines().count());
    assert!(lines.len() as u64 <= MOST_FILE_BYTES);
    // Whatever is there of a writer is its newest, without a gap.
    let found = by_writer(&File::at(&path));
    assert!(found.values().map(Vec::len).sum::<usize>() >= 300);
    for (writer, numbers) in found {
        let own = numbers.iter().rev().take_while(|&&number| number > 0).count();
        let newest: Vec<_> = (300 - own..300).collect();
        assert_eq!(numbers[numbers.len() - own..], newest, "of writer {writer}");
    }
    assert_eq!(mode(&path), 0o600);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_file_that_was_replaced_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let file = File::at(&dir.path().join("history"));
    let open = file.opened().unwrap();
    assert!(file.is_still(&open).unwrap());
    fs::write(dir.path().join("new"), "").unwrap();
    fs::rename(dir.path().join("new"), &file.path).unwrap();
    assert!(!file.is_still(&open).unwrap());
    fs::remove_file(&file.path).unwrap();
    assert!(!file.is_still(&open).unwrap());
}

#[test]
fn the_newest_thousand_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File::at(&dir.path().join("history"));
    let mut lines = String::new();
    for number in 0..MOST_FILE_ENTRIES {
        writeln!(lines, "{{\"at\":1,\"text\":\"number {number}\"}}").unwrap();
    }
    fs::write(&file.path, lines).unwrap();
    append(&mut file, "the last");
    let kept = texts(&file);
    assert_eq!(kept.len(), MOST_ENTRIES);
    assert_eq!(kept.last().unwrap(), "the last");
    assert_eq!(kept[0], format!("number {}", MOST_FILE_ENTRIES + 1 - MOST_ENTRIES));
}

#[test]
fn large_messages_are_kept_within_a_size() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File::at(&dir.path().join("history"));
    for c in ["a", "b", "c", "d", "e", "f"] {
        append(&mut file, &c.repeat(1_000_000));
        let len = fs::metadata(&file.path).unwrap().len();
        assert!(len <= MOST_FILE_BYTES, "{len}");
    }
    let kept: Vec<_> = texts(&file).iter().map(|text| text[..1].to_owned()).collect();
    assert_eq!(kept, ["d", "e", "f"], "two of them were kept when the fifth was too much");
}

#[test]
fn a_message_that_would_drive_out_all_others_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File::at(&dir.path().join("history"));
    append(&mut file, "one");
    // Six characters each, as JSON writes them.
    append(&mut file, &"\u{1}".repeat(MOST_BYTES));
    append(&mut file, "two");
    assert_eq!(texts(&file), ["one", "two"]);
}

#[test]
fn garbage_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File::at(&dir.path().join("history"));
    let mut garbage =
        b"not json\n{\"text\":1}\n[]\nnull\n\n\xff\xfe\x00\n{\"text\":\" \"}\n".to_vec();
    garbage.extend(b"{\"text\":\"good\",\"new\":true,\"pastes\":[[0,9],7,[\"a\"]]}\n");
    garbage.extend(b"{\"text\":\"cut off");
    fs::write(&file.path, garbage).unwrap();
    assert_eq!(texts(&file), ["good"]);
    append(&mut file, "next");
    assert_eq!(texts(&file), ["good", "next"], "what was cut off swallows nothing");
}

#[test]
fn only_its_owner_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File::at(&dir.path().join("private/history"));
    append(&mut file, "one");
    assert_eq!(mode(&file.path), 0o600);
    assert_eq!(mode(&dir.path().join("private")), 0o700);
    fs::set_permissions(&file.path, fs::Permissions::from_mode(0o644)).unwrap();
    append(&mut file, "two");
    assert_eq!(mode(&file.path), 0o600);
}

#[test]
fn a_link_to_the_file_stays_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real");
    let link = dir.path().join("link");
    fs::write(&real, "{\"text\":\"old\"}\n".repeat(MOST_FILE_ENTRIES * 4)).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    append(&mut File::at(&link), "new");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(texts(&File::at(&real)).len(), MOST_ENTRIES);
}

#[test]
fn what_a_killed_process_left_while_it_wrote_the_file_anew_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history");
    fs::write(dir.path().join("history.new"), "{\"text\":\"ha").unwrap();
    fs::write(&path, "{\"text\":\"old\"}\n".repeat(MOST_FILE_ENTRIES)).unwrap();
    append(&mut File::at(&path), "new");
    assert_eq!(texts(&File::at(&path)).len(), MOST_ENTRIES);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn a_device_in_the_place_of_the_file_keeps_nothing_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let device = dir.path().join("device");
    // As `/dev/null`, but nobody else needs this one.
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &device,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    fs::set_permissions(&device, fs::Permissions::from_mode(0o644)).unwrap();
    let link = dir.path().join("history");
    std::os::unix::fs::symlink(&device, &link).unwrap();
    let mut file = File::at(&link);
    append(&mut file, "one");
    assert_eq!(mode(&device), 0o644);
    assert_eq!(texts(&file), Vec::<String>::new());
    let null = File::at(Path::new("/dev/null"));
    assert_eq!(texts(&null), Vec::<String>::new());
}

#[test]
fn a_lock_that_is_never_given_back_is_not_waited_for_forever() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File::at(&dir.path().join("history"));
    append(&mut file, "one");
    file.timeout = Duration::from_millis(10);
    let held = file.locked().unwrap();
    let error = file.append(&Fragment::plain("two")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    drop(held);
    append(&mut file, "three");
    assert_eq!(texts(&file), ["one", "three"]);
}
