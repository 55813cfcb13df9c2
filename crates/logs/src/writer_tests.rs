//! One process with a log, and what others may have left there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;

fn entry(text: &str) -> Vec<u8> {
    format!("{text}\n").into_bytes()
}

/// Returns the lines of all files, the oldest first.
fn lines(files: &LogFiles) -> Vec<String> {
    let mut all = Vec::new();
    for number in (0..=files.backups()).rev() {
        let Ok(text) = std::fs::read_to_string(files.numbered(number)) else { continue };
        assert!(text.ends_with('\n'));
        all.extend(text.lines().map(str::to_owned));
    }
    all
}

fn log(dir: &Path, max_bytes: u64, backups: u32) -> LogFiles {
    LogFiles::new(dir.join("logs/a.log"), max_bytes, backups)
}

#[test]
fn nothing_is_there_before_the_first_entry_and_then_for_its_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let files = log(dir.path(), 1000, 3);
    let mut writer = LogWriter::new(files.clone());
    assert!(!dir.path().join("logs").exists());
    writer.write(&entry("one")).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(files.path()), 0o600);
    assert_eq!(mode(files.path().parent().unwrap()), 0o700);
}

#[test]
fn full_files_are_kept_up_to_their_number_and_none_is_too_large() {
    let dir = tempfile::tempdir().unwrap();
    let files = log(dir.path(), 1000, 9);
    let mut writer = LogWriter::new(files.clone());
    for n in 0..1500 {
        writer.write(&entry(&format!("line {n}"))).unwrap();
    }
    let found = lines(&files);
    assert_eq!(std::fs::read_dir(dir.path().join("logs")).unwrap().count(), 10);
    // The oldest are gone, the rest follow each other to the last one.
    let first = 1500 - found.len();
    assert_eq!(found, (first..1500).map(|n| format!("line {n}")).collect::<Vec<_>>());
    assert!((900..1100).contains(&found.len()), "{}", found.len());
    for number in 0..10 {
        assert!(files.numbered(number).metadata().unwrap().len() <= 1000);
    }
}

#[test]
fn a_rotation_that_was_cut_short_is_finished_without_a_loss() {
    // What there is after a crash between any two of the three moves.
    for names in [[0, 1, 3], [0, 2, 3]] {
        let dir = tempfile::tempdir().unwrap();
        let files = log(dir.path(), 10, 3);
        std::fs::create_dir(dir.path().join("logs")).unwrap();
        for (number, text) in names.iter().zip(["third", "second", "first"]) {
            std::fs::write(files.numbered(*number), format!("{text}\n")).unwrap();
        }
        LogWriter::new(files.clone()).write(&entry("fourth and long")).unwrap();
        assert_eq!(lines(&files), ["first", "second", "third", "fourth and long"], "{names:?}");
    }
}

#[test]
fn a_line_that_a_crash_cut_off_is_ended_before_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let files = log(dir.path(), 1000, 3);
    let mut writer = LogWriter::new(files.clone());
    writer.write(&entry("one")).unwrap();
    // Another process, whose write was cut short.
    std::fs::OpenOptions::new()
        .append(true)
        .open(files.path())
        .unwrap()
        .write_all(b"cut o")
        .unwrap();
    writer.write(&entry("two")).unwrap();
    assert_eq!(lines(&files), ["one", "cut o", "two"]);
}

#[test]
fn a_home_that_was_moved_is_not_made_again_for_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let files = log(&home, 1000, 3);
    // One that is not there yet is made with the first entry.
    LogWriter::new(files.clone().within(&home)).write(&entry("one")).unwrap();
    let files = files.within(&home);
    let mut open = LogWriter::new(files.clone());
    open.write(&entry("two")).unwrap();
    std::fs::rename(&home, dir.path().join("moved")).unwrap();
    open.write(&entry("three")).unwrap_err();
    LogWriter::new(files.clone()).write(&entry("four")).unwrap_err();
    assert!(!home.exists());
    std::fs::rename(dir.path().join("moved"), &home).unwrap();
    open.write(&entry("five")).unwrap();
    assert_eq!(lines(&files).last().map(String::as_str), Some("five"));
}

#[test]
fn a_log_that_is_taken_away_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let files = log(dir.path(), 1000, 3);
    let mut writer = LogWriter::new(files.clone());
    writer.write(&entry("one")).unwrap();
    std::fs::remove_dir_all(dir.path().join("logs")).unwrap();
    writer.write(&entry("two")).unwrap();
    assert_eq!(lines(&files), ["two"]);
    // A pipe would keep a writer waiting for ever, a link would lead it elsewhere.
    std::fs::remove_file(files.path()).unwrap();
    let elsewhere = dir.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, files.path()).unwrap();
    assert!(writer.write(&entry("three")).is_err());
    assert!(!elsewhere.exists());
    std::fs::remove_file(files.path()).unwrap();
    writer.write(&entry("four")).unwrap();
    let found = lines(&files);
    assert!(
        found[0].contains("WARN [-] vestal_logs: 1 entries before this one are lost"),
        "{found:?}"
    );
    assert_eq!(found[1..], ["four"]);
}

#[test]
fn a_process_that_holds_the_lock_for_ever_holds_nobody_up_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let files = log(dir.path(), 20, 3);
    let mut writer = LogWriter::new(files.clone());
    writer.write(&entry("one")).unwrap();
    let stopped = File::open(files.path()).unwrap();
    stopped.lock().unwrap();
    // The second does not wait again. Neither moves the file.
    writer.write(&entry("two, which is long")).unwrap();
    writer.write(&entry("three, which is long")).unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("logs")).unwrap().count(), 1);
    drop(stopped);
    writer.write(&entry("four")).unwrap();
    assert_eq!(lines(&files), ["one", "two, which is long", "three, which is long", "four"]);
    assert!(files.numbered(1).exists());
}
