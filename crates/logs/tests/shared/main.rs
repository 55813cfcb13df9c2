//! Several processes with one log.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use vestal_logs::{EntryReader, LogEntry, LogFiles, LogInput, LogWriter, PendingEntry};

/// So many files that none is removed while a test runs.
const MANY: u32 = 400;

fn start(path: &Path, max_bytes: u64, name: &str, count: u64) -> Child {
    command(path, max_bytes, name, count).spawn().unwrap()
}

fn command(path: &Path, max_bytes: u64, name: &str, count: u64) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_log-writer"));
    command
        .arg(path)
        .args([max_bytes.to_string(), MANY.to_string(), name.to_owned(), count.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

fn reader(path: &Path, max_bytes: u64) -> EntryReader {
    EntryReader::new(LogInput::new("test", None, LogFiles::new(path, max_bytes, MANY)))
}

fn rest(reader: &mut EntryReader) -> Vec<LogEntry> {
    std::iter::from_fn(|| reader.next_entry(PendingEntry::Take).unwrap()).collect()
}

/// Takes the entries of each process: every one whole, and in its order.
fn by_process(entries: Vec<LogEntry>) -> BTreeMap<String, Vec<u64>> {
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for entry in entries {
        let name = entry.target.clone().unwrap_or_else(|| panic!("a torn line: {entry:?}"));
        let (first, second) = entry.message.split_once('\n').unwrap();
        assert_eq!(second, format!("of {name}"), "a torn entry");
        let number = first.strip_prefix("line ").unwrap().parse().unwrap();
        found.entry(name).or_default().push(number);
    }
    found
}

#[test]
fn processes_that_share_a_log_lose_and_tear_no_entry_and_a_follower_sees_each_once() {
    const EACH: u64 = 250;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("logs/shared.log");
    let mut writers: Vec<Child> =
        (0..8).map(|number| start(&path, 2000, &format!("p{number}"), EACH)).collect();
    // Reads while they write.
    let mut follower = reader(&path, 2000);
    let mut followed = Vec::new();
    while writers.iter_mut().any(|writer| writer.try_wait().unwrap().is_none()) {
        follower.look_again();
        while let Some(entry) = follower.next_entry(PendingEntry::Leave).unwrap() {
            followed.push(entry);
        }
    }
    followed.extend(rest(&mut follower));
    assert!(writers.into_iter().all(|writer| writer.wait_with_output().unwrap().status.success()));
    let all: Vec<u64> = (0..EACH).collect();
    let expected: BTreeMap<String, Vec<u64>> =
        (0..8).map(|number| (format!("p{number}"), all.clone())).collect();
    assert_eq!(by_process(followed), expected);
    assert_eq!(by_process(rest(&mut reader(&path, 2000))), expected);
    let files = vestal_testkit::files::names(path.parent().unwrap());
    assert!(files.len() > 50, "there were only {} files", files.len());
}

#[test]
fn a_process_that_is_killed_while_it_rotates_takes_no_entry_of_anybody_along() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shared.log");
    let mut acknowledged: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    // Every other entry begins a file, so that a kill mostly meets a rotation.
    let max_bytes = 150;
    for round in 0..4_usize {
        let names: Vec<String> = (0..3).map(|number| format!("r{round}p{number}")).collect();
        let mut writers: Vec<Child> =
            names.iter().map(|name| start(&path, max_bytes, name, 60)).collect();
        for (writer, name) in writers.iter_mut().zip(&names) {
            let mut output = BufReader::new(writer.stdout.take().unwrap());
            let mut line = String::new();
            for _ in 0..3 + round {
                line.clear();
                output.read_line(&mut line).unwrap();
            }
            writer.kill().unwrap();
            writer.wait().unwrap();
            // What it had written and nobody had read yet.
            let mut rest = String::new();
            output.read_to_string(&mut rest).unwrap();
            let last = rest.lines().last().unwrap_or(line.trim()).parse().unwrap();
            acknowledged.insert(name.clone(), (0..=last).collect());
        }
    }
    let mut found = by_process(rest(&mut reader(&path, max_bytes)));
    for (name, numbers) in &acknowledged {
        let written = found.get_mut(name).unwrap();
        // One more may have been written and not acknowledged.
        written.truncate(numbers.len());
        assert_eq!(written, numbers, "{name}");
    }
    // The next process continues.
    let entry = b"2026-01-31T10:00:00.000Z INFO [-] next: line 0\n    of next\n";
    LogWriter::new(LogFiles::new(&path, max_bytes, MANY)).write(entry).unwrap();
    assert_eq!(by_process(rest(&mut reader(&path, max_bytes)))["next"], [0]);
}

#[test]
fn a_full_disk_costs_entries_which_are_counted_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shared.log");
    // A file that may not grow is a disk that is full; the signal for it is ignored.
    let writer = command(&path, 1 << 20, "w", 0);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(writer.get_program());
    shell.args(writer.get_args()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut write = |text: &str| -> u64 {
        writeln!(input, "{text}").unwrap();
        output.next().unwrap().unwrap().parse().unwrap()
    };
    assert_eq!(write("one"), 0);
    let pid = Pid::from_child(&child);
    let unlimited = rustix::process::getrlimit(Resource::Fsize);
    let size = path.metadata().unwrap().len();
    let full = Rlimit { current: Some(size + 10), maximum: unlimited.maximum };
    prlimit(Some(pid), Resource::Fsize, full).unwrap();
    assert_eq!([write("two"), write("three")], [1, 2]);
    prlimit(Some(pid), Resource::Fsize, unlimited).unwrap();
    assert_eq!(write("four"), 0);
    drop(input);
    assert!(child.wait().unwrap().success());
    let found: Vec<(String, String)> = rest(&mut reader(&path, 1 << 20))
        .into_iter()
        .map(|entry| (entry.target.unwrap_or_default(), entry.message))
        .collect();
    let lost = "2 entries before this one are lost: File too large (os error 27)";
    let text = std::fs::read_to_string(&path).unwrap();
    // The ten bytes that had room are a line of their own, and nothing of the entry before.
    let piece = text.lines().nth(1).unwrap();
    assert_eq!(piece.len(), 10);
    let own = |text: String| ("w".to_owned(), text);
    let notice = ("vestal_logs".to_owned(), lost.to_owned());
    let piece = (String::new(), piece.to_owned());
    assert_eq!(found, [own("one".to_owned()), piece, notice, own("four".to_owned())]);
}
