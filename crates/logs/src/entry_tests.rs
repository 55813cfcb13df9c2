//! What is written is what is read.

use proptest::prelude::*;

use super::*;

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(1_769_853_600_000 + milliseconds).unwrap()
}

fn read(text: &str) -> LogEntry {
    let mut lines = text.lines();
    let Parsed::Begins(mut entry) = LogEntry::parse(lines.next().unwrap().as_bytes()) else {
        panic!("{text:?} does not begin an entry");
    };
    for line in lines {
        match LogEntry::parse(line.as_bytes()) {
            Parsed::Continues(line) => entry.message.extend(["\n", line.as_str()]),
            Parsed::Begins(entry) => panic!("{entry:?} in {text:?}"),
        }
    }
    entry
}

#[test]
fn the_shape_of_a_line_is_fixed() {
    let entry = NewEntry {
        level: Level::Warn,
        session: Some("20260131-100000-abc123"),
        target: "vestal_agent::turn",
        text: "two\nlines key=1\u{1b}[2J",
    };
    let written = entry.format(at(123));
    assert_eq!(
        written,
        "2026-01-31T10:00:00.123Z WARN [20260131-100000-abc123] vestal_agent::turn: two\n    lines key=1\\u{1b}[2J\n"
    );
    let found = read(&written);
    assert_eq!(found.message, "two\nlines key=1\\u{1b}[2J");
    assert_eq!(format!("{} {}\n", stamp(at(123)), found.text()), written);
    let empty = NewEntry { level: Level::Info, session: None, target: "t", text: "" };
    assert_eq!(empty.format(at(0)), "2026-01-31T10:00:00.000Z INFO [-] t: \n");
    assert_eq!(read(&empty.format(at(0))).message, "");
}

#[test]
fn what_a_supervisor_notes_is_the_entry_of_its_child_with_its_own_time() {
    let entry = NewEntry { level: Level::Error, session: None, target: "t", text: "one\ntwo" };
    let written = entry.format(at(5));
    let noted: Vec<String> =
        written.lines().map(|line| format!("2026-01-31T10:00:09.000Z {line}")).collect();
    assert_eq!(read(&noted.join("\n")), read(&written));
    let raw = read("2026-01-31T10:00:09.000Z Traceback:\n2026-01-31T10:00:09.000Z   File x");
    assert_eq!((raw.level, raw.at), (None, Some(at(9000))));
    assert_eq!(raw.message, "Traceback:\n  File x");
}

#[test]
fn an_entry_without_end_is_cut() {
    let text = "ä".repeat(MAX_ENTRY);
    let entry = NewEntry { level: Level::Info, session: None, target: "t", text: &text };
    let written = entry.format(at(0));
    assert!(written.len() < MAX_ENTRY + 100, "{}", written.len());
    assert!(written.ends_with(&format!(" … ({MAX_ENTRY} bytes left out)\n")));
}

#[test]
fn levels_are_read_by_every_usual_word() {
    let levels = ["debug", "INFO", "warn", "Warning", "error", "critical"].map(str::parse);
    let expected =
        [Level::Debug, Level::Info, Level::Warn, Level::Warn, Level::Error, Level::Error];
    assert_eq!(levels, expected.map(Ok));
    assert_eq!("loud".parse::<Level>(), Err(UnknownLevel));
}

proptest! {
    /// Whatever a message contains, it is one entry, and no part of it passes for another.
    #[test]
    fn any_text_is_one_entry(
        text in "(\\PC|[\n\r\t\u{0}\u{1b}\u{202e}]|2026-01-31T10:00:00.000Z ERROR \\[x\\] y: ){0,40}",
        session in "\\PC{1,20}",
        number in 0..100_000_i64,
    ) {
        let new = NewEntry { level: Level::Info, session: Some(&session), target: "a::b", text: &text };
        let written = new.format(at(number));
        let found = read(&written);
        prop_assert_eq!(found.at, Some(at(number)));
        prop_assert_eq!(found.level, Some(Level::Info));
        prop_assert_eq!(found.target.as_deref(), Some("a::b"));
        prop_assert_eq!(format!("{} {}\n", stamp(at(number)), found.text()), written);
    }
}
