use std::io::Write;
use std::path::PathBuf;

use minicbor::bytes::ByteVec;
use vestal_wire::{Cause, JobExit, JobInfo, JobState, SessionState};

use super::*;

fn path() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    (dir, path)
}

fn info(id: &str) -> JobInfo {
    JobInfo {
        id: id.parse().unwrap(),
        state: JobState::Starting,
        summary: "true".into(),
        session: None,
        cwd: ByteVec::from(b"/".to_vec()),
        background: false,
        pty: false,
        pid: None,
        pid_start: None,
        started_ms: 1,
        ended_ms: None,
        stdout_bytes: 0,
        stderr_bytes: 0,
        stdout_omitted: 0,
        stderr_omitted: 0,
        processes: 0,
        stdin_open: false,
        session_state: SessionState::None,
        duration_us: None,
        session_error: None,
    }
}

fn ended(id: &str) -> JobInfo {
    JobInfo { state: JobState::Ended(JobExit { code: Some(3), cause: Cause::Exited }), ..info(id) }
}

#[test]
fn records_come_back_as_they_were_written() {
    let (_dir, path) = path();
    let starts = GuestStart { incarnation: "i".into(), boot: "b".into() };
    let mut journal = Journal::create(&path, &[JournalRecord::GuestStart(starts.clone())]).unwrap();
    journal.append(&JournalRecord::Start(Box::new(info("a")))).unwrap();
    journal.append(&JournalRecord::Start(Box::new(info("b")))).unwrap();
    journal.append(&JournalRecord::End(Box::new(ended("a")))).unwrap();
    journal.append(&JournalRecord::Start(Box::new(info("c")))).unwrap();
    journal.append(&JournalRecord::Refused("r".parse().unwrap())).unwrap();
    journal.append(&JournalRecord::Forgotten("b".parse().unwrap())).unwrap();
    let replay = Journal::replay(&path).unwrap();
    assert_eq!(replay.starts, [starts]);
    assert_eq!(replay.jobs, [ended("a"), info("c")]);
    assert!(replay.refused.contains(&"r".parse().unwrap()));
    assert!(replay.used.contains(&"b".parse().unwrap()));
    assert!(!replay.damaged);
}

#[test]
fn a_torn_tail_is_cut_off_wherever_it_is_torn() {
    let (_dir, path) = path();
    let mut journal = Journal::create(&path, &[JournalRecord::Start(Box::new(info("a")))]).unwrap();
    let before = std::fs::read(&path).unwrap().len();
    journal.append(&JournalRecord::Start(Box::new(info("b")))).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for cut in before..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let replay = Journal::replay(&path).unwrap();
        assert_eq!(replay.jobs, [info("a")], "cut at {cut}");
        assert!(!replay.damaged);
    }
}

#[test]
fn damage_in_the_middle_is_noticed() {
    let (_dir, path) = path();
    let records = ["a", "b"].map(|id| JournalRecord::Start(Box::new(info(id))));
    Journal::create(&path, &records).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 5;
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let replay = Journal::replay(&path).unwrap();
    assert_eq!(replay.jobs, [info("a")]);
    assert!(replay.damaged);
}

#[test]
fn a_newer_journal_and_a_stranger_are_refused_and_left_alone() {
    let (_dir, path) = path();
    std::fs::write(&path, b"VSTJ\x02\0\0\0future").unwrap();
    let error = Journal::replay(&path).unwrap_err();
    assert!(matches!(error, JournalError::Newer { found: 2, .. }), "{error}");
    std::fs::write(&path, b"something else").unwrap();
    assert!(matches!(Journal::replay(&path).unwrap_err(), JournalError::Foreign { .. }));
    assert_eq!(std::fs::read(&path).unwrap(), b"something else");
}

#[test]
fn a_missing_and_an_unfinished_journal_are_empty() {
    let (_dir, path) = path();
    assert!(Journal::replay(&path).unwrap().jobs.is_empty());
    std::fs::write(&path, b"VST").unwrap();
    assert!(Journal::replay(&path).unwrap().jobs.is_empty());
}

#[test]
fn what_is_appended_after_compaction_is_found() {
    let (_dir, path) = path();
    let mut journal = Journal::create(&path, &[]).unwrap();
    journal.append(&JournalRecord::Start(Box::new(info("a")))).unwrap();
    journal.compact(&[JournalRecord::End(Box::new(ended("a")))]).unwrap();
    journal.append(&JournalRecord::Start(Box::new(info("b")))).unwrap();
    assert_eq!(Journal::replay(&path).unwrap().jobs, [ended("a"), info("b")]);
}

#[test]
fn leftovers_of_a_crashed_compaction_do_no_harm() {
    let (dir, path) = path();
    std::fs::File::create(dir.path().join("journal.new")).unwrap().write_all(b"half").unwrap();
    Journal::create(&path, &[JournalRecord::Start(Box::new(info("a")))]).unwrap();
    assert_eq!(Journal::replay(&path).unwrap().jobs, [info("a")]);
}

fn id(n: usize) -> JobId {
    format!("job-{n}").parse().unwrap()
}

#[test]
fn ids_are_remembered_and_survive_being_stored() {
    let mut ledger = IdSet::default();
    (0..1000).for_each(|n| ledger.add(&id(n)));
    let mut copy = IdSet::default();
    copy.add_bytes(&ledger.to_bytes(), ledger.overflowed());
    assert!((0..1000).all(|n| copy.contains(&id(n))));
    assert!(!copy.contains(&id(1000)));
    assert!(!copy.overflowed());
}

#[test]
fn a_full_ledger_drops_the_oldest_and_says_so() {
    let mut ledger = IdSet::default();
    (0..2 * GENERATION).for_each(|n| ledger.add(&id(n)));
    assert!(ledger.contains(&id(0)) && !ledger.overflowed());
    ledger.add(&id(2 * GENERATION));
    assert!(!ledger.contains(&id(0)) && ledger.overflowed());
    assert!(ledger.contains(&id(GENERATION)));
}

#[test]
fn the_checksum_is_the_standard_one() {
    assert_eq!(super::crc32(b"123456789"), 0xCBF4_3926);
}
