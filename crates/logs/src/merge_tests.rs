//! Several logs as one.

use std::path::Path;

use super::*;
use crate::entry::{NewEntry, stamp};
use crate::writer::LogWriter;

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(1_769_853_600_000 + milliseconds).unwrap()
}

fn line(milliseconds: i64, level: Level, session: Option<&str>, text: &str) -> String {
    NewEntry { level, session, target: "t", text }.format(at(milliseconds))
}

fn files(dir: &Path, name: &str) -> LogFiles {
    LogFiles::new(dir.join(name), 10_000, 3)
}

fn source(dir: &Path, name: &'static str) -> LogInput {
    LogInput::new(name, Some("default".to_owned()), files(dir, name))
}

fn write(dir: &Path, name: &str, lines: &[String]) {
    let mut log = LogWriter::new(files(dir, name));
    for line in lines {
        log.write(line.as_bytes()).unwrap();
    }
}

fn messages(found: Vec<SourcedEntry>) -> Vec<String> {
    found.into_iter().map(|found| found.entry.message).collect()
}

#[test]
fn entries_of_several_logs_are_in_the_order_of_their_times() {
    let dir = tempfile::tempdir().unwrap();
    let info = |time, text| line(time, Level::Info, None, text);
    // The clock of the second went back; what follows is not held up by that.
    write(dir.path(), "a", &[info(1, "one"), info(4, "four"), info(6, "six")]);
    write(dir.path(), "b", &[info(2, "two"), info(5, "five"), info(3, "late"), info(7, "seven")]);
    std::fs::write(dir.path().join("c"), "no time\n").unwrap();
    let mut merged =
        MergedLogs::new(["a", "b", "c"].map(|name| source(dir.path(), name)), LogFilter::default());
    let found = messages(merged.last(100));
    assert_eq!(found, ["no time", "one", "two", "four", "five", "late", "six", "seven"]);
}

#[test]
fn a_log_that_is_added_is_read_from_then_on_and_no_log_is_added_twice() {
    let dir = tempfile::tempdir().unwrap();
    let info = |time, text| line(time, Level::Info, None, text);
    let sources = |names: &[&'static str]| {
        names.iter().map(|name| source(dir.path(), name)).collect::<Vec<_>>()
    };
    write(dir.path(), "a", &[info(1, "one")]);
    write(dir.path(), "b", &[info(2, "before")]);
    let mut merged = MergedLogs::new(sources(&["a"]), LogFilter::default());
    assert_eq!(messages(merged.last(100)), ["one"]);
    assert!(merged.add(sources(&["a", "b", "c"]), at(3)));
    assert!(!merged.add(sources(&["a", "b", "c"]), at(3)));
    write(dir.path(), "a", &[info(4, "two")]);
    write(dir.path(), "b", &[info(3, "three")]);
    write(dir.path(), "c", &[info(5, "four")]);
    assert_eq!(messages(merged.last(100)), ["three", "two", "four"]);
}

#[test]
fn the_last_entries_are_those_that_match_and_reach_into_full_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut lines = vec![line(0, Level::Warn, None, "first\nwarning")];
    lines.extend((1..300).map(|n| line(n, Level::Info, None, &format!("line {n}"))));
    lines.push(line(300, Level::Error, None, "second\nwarning\n\n  indented"));
    lines.push(line(301, Level::Info, None, "end"));
    write(dir.path(), "a", &lines);
    assert!(dir.path().join("a.1").exists());
    let last = |filter: LogFilter, count| {
        messages(MergedLogs::new([source(dir.path(), "a")], filter).last(count))
    };
    let warnings = LogFilter { level: Some(Level::Warn), ..LogFilter::default() };
    // Their further lines go with them, and those of others do not.
    assert_eq!(last(warnings.clone(), 5), ["first\nwarning", "second\nwarning\n\n  indented"]);
    assert_eq!(last(warnings, 1), ["second\nwarning\n\n  indented"]);
    assert_eq!(last(LogFilter::default(), 2), ["second\nwarning\n\n  indented", "end"]);
    assert_eq!(last(LogFilter::default(), 0), Vec::<String>::new());
    let young = LogFilter { since: Some(at(300)), ..LogFilter::default() };
    assert_eq!(last(young, 50), ["second\nwarning\n\n  indented", "end"]);
    // Whatever its case is, in a further line as well, and in what is full.
    let text = |text: &str| LogFilter { text: Some(text.to_owned()), ..LogFilter::default() };
    assert_eq!(last(text("indented"), 5), ["second\nwarning\n\n  indented"]);
    assert_eq!(last(text("line 17"), 500).len(), 11, "17 and 170 to 179");
    assert_eq!(last(text("nothing has this"), 5), Vec::<String>::new());
}

#[test]
fn a_text_is_found_in_messages_and_their_sources_whatever_its_case() {
    let entry = LogEntry {
        target: Some("vestal_agent::Turn".to_owned()),
        ..LogEntry::notice(None, Level::Info, "The disk is FULL".to_owned())
    };
    let matches = |text: &str| {
        let filter = LogFilter { text: Some(text.to_owned()), ..LogFilter::default() };
        filter.matches(&entry)
    };
    assert!(matches("disk is full") && matches("agent::turn"));
    assert!(!matches("empty"));
}

#[test]
fn a_conversation_is_found_by_a_part_of_its_id() {
    let entry =
        |session| LogEntry { session, ..LogEntry::notice(None, Level::Info, String::new()) };
    let filter = |id: &str| LogFilter { session: Some(id.to_owned()), ..LogFilter::default() };
    let own = entry(Some("20260131-100000-k3v9qd".to_owned()));
    for id in ["20260131-100000-k3v9qd", "20260131-10", "k3v9qd"] {
        assert!(filter(id).matches(&own), "{id}");
        assert!(!filter(id).matches(&entry(None)), "{id}");
    }
    for id in ["20260201", "3v9qd", "k3v"] {
        assert!(!filter(id).matches(&own), "{id}");
    }
}

#[test]
fn an_entry_that_stands_in_several_logs_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let warning = line(5, Level::Warn, Some("s"), "disk\nfull");
    let info = line(6, Level::Info, None, "went on");
    // Twice in the same millisecond, by two processes.
    write(dir.path(), "agent", &[warning.clone(), warning.clone(), info.clone()]);
    write(dir.path(), "errors", &[warning.clone(), warning.clone()]);
    // What a supervisor noted of one of them, a little later.
    let noted: Vec<String> = format!("{warning}{info}")
        .lines()
        .map(|line| format!("{} {line}\n", stamp(at(9))))
        .chain([format!("{} plain\n", stamp(at(9))), format!("{} plain\n", stamp(at(9)))])
        .collect();
    write(dir.path(), "current", &noted);
    let names = ["current", "agent", "errors"];
    let found =
        MergedLogs::new(names.map(|name| source(dir.path(), name)), LogFilter::default()).last(50);
    let expected = ["disk\nfull", "disk\nfull", "went on", "plain", "plain"];
    assert_eq!(messages(found), expected);
    // Those of another owner are others.
    let other = LogInput { owner: Some("work".to_owned()), ..source(dir.path(), "errors") };
    let sources = [source(dir.path(), "agent"), other];
    assert_eq!(messages(MergedLogs::new(sources, LogFilter::default()).last(50)).len(), 5);
}

#[test]
fn what_comes_is_seen_once_and_whole_across_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let mut merged =
        MergedLogs::new(["a", "b"].map(|name| source(dir.path(), name)), LogFilter::default());
    write(dir.path(), "a", &[line(0, Level::Info, None, "before")]);
    assert_eq!(messages(merged.last(1)), ["before"]);
    let (mut seen, mut written) = (Vec::new(), Vec::new());
    for number in 1..400 {
        let text = format!("line {number}\nand more of {number}");
        let entry = line(number, Level::Warn, None, &text);
        write(dir.path(), "a", std::slice::from_ref(&entry));
        write(dir.path(), "b", &[entry]);
        written.push(text);
        if number % 7 == 0 {
            seen.extend(messages(merged.look()));
        }
    }
    seen.extend(messages(merged.look()));
    seen.extend(messages(merged.look()));
    assert_eq!(seen, written);
    // An entry whose lines come one by one is not taken apart.
    let entry = line(500, Level::Info, None, "one\ntwo");
    let (first, second) = entry.split_once('\n').unwrap();
    write(dir.path(), "a", &[format!("{first}\n")]);
    assert_eq!(messages(merged.look()), Vec::<String>::new());
    write(dir.path(), "a", &[second.to_owned()]);
    assert_eq!(messages(merged.look()), Vec::<String>::new());
    assert_eq!(messages(merged.look()), ["one\ntwo"]);
}

#[test]
fn a_log_that_cannot_be_read_is_reported_and_keeps_no_other_from_being_read() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("a")).unwrap();
    write(dir.path(), "b", &[line(1, Level::Info, None, "one")]);
    let errors = LogFilter { level: Some(Level::Info), ..LogFilter::default() };
    let mut merged = MergedLogs::new(["a", "b"].map(|name| source(dir.path(), name)), errors);
    let found = messages(merged.last(10));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("/a cannot be read: "), "{found:?}");
    assert_eq!(found[1], "one");
    assert_eq!(merged.look(), []);
}

#[test]
fn what_was_printed_beside_a_warning_is_no_warning() {
    let dir = tempfile::tempdir().unwrap();
    // A library prints a line into the log, without a time and between entries.
    let warning = line(1, Level::Warn, None, "careful\nof this");
    let stamped = |text: &str| format!("{} {text}\n", stamp(at(3)));
    let lines = [
        warning,
        "printed without a time\n".to_owned(),
        "    indented\n".to_owned(),
        line(2, Level::Error, None, "failed"),
        stamped("printed with a time"),
        stamped("    and indented"),
    ];
    write(dir.path(), "a", &lines);
    let last = |level| {
        let filter = LogFilter { level: Some(level), ..LogFilter::default() };
        MergedLogs::new([source(dir.path(), "a")], filter).last(50)
    };
    assert_eq!(messages(last(Level::Warn)), ["careful\nof this", "failed"]);
    let all = last(Level::Info);
    assert_eq!(all[1].entry.at, Some(at(1)), "it is as old as the entry before");
    assert_eq!(
        messages(all),
        [
            "careful\nof this",
            "printed without a time\nindented",
            "failed",
            "printed with a time\nand indented"
        ]
    );
}

#[test]
fn of_a_long_log_only_the_end_is_read_and_it_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let big = |name: &str| LogFiles::new(dir.path().join(name), 300_000, 5);
    let of = |name: &'static str| LogInput::new(name, Some("default".to_owned()), big(name));
    for (name, step) in [("a", 2), ("b", 3)] {
        let mut log = LogWriter::new(big(name));
        for number in 0..6000 {
            let level = if number % 1000 == 0 { Level::Error } else { Level::Info };
            let text = format!("{name} {number} {}\nsecond line of it", "x".repeat(40));
            log.write(line(number * step, level, None, &text).as_bytes()).unwrap();
        }
    }
    assert!(dir.path().join("a.2").exists());
    for (level, count) in [(None, 1), (None, 50), (None, 5000), (Some(Level::Error), 5)] {
        let filter = LogFilter { level, ..LogFilter::default() };
        // All of them are wanted, so all is read.
        let mut whole =
            messages(MergedLogs::new(["a", "b"].map(of), filter.clone()).last(usize::MAX));
        whole.drain(..whole.len() - count);
        let mut merged = MergedLogs::new(["a", "b"].map(of), filter);
        assert_eq!(messages(merged.last(count)), whole, "{level:?} {count}");
        assert_eq!(merged.look(), [], "nothing is reported twice");
    }
    // Where it is as long as it is, a start is never within an entry.
    for bytes in [1, 40, 1000, 256 << 10] {
        let mut reader = EntryReader::near_end(of("a"), bytes).unwrap().unwrap();
        while let Some(entry) = reader.next_entry(PendingEntry::Take).unwrap() {
            assert!(entry.message.starts_with("a "), "{bytes}: {}", entry.message);
        }
    }
    assert!(EntryReader::near_end(of("a"), 1 << 30).unwrap().is_none(), "it is not that long");
}
