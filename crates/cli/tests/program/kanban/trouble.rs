//! Bad input and bad disks: a clear word, and nothing lost.

use std::fs;
use std::process::{Command, Stdio};

use super::{create, done, json, kanban, refused};
use crate::support::{ProgramFixture, finish};

#[test]
fn what_names_no_task_or_several_is_reported_with_what_to_do() {
    let fixture = ProgramFixture::new();
    let ids: Vec<String> = (0..40).map(|n| create(&fixture, &[&n.to_string()])).collect();
    for wrong in ["t_zzzzzzzzzzzz", "t_zzz", "nope!", "../x", "", "t_", "t_ilo"] {
        let reported = kanban(&fixture, &["show", "--", wrong]).exits(1);
        assert!(reported.stderr.contains("task"), "{wrong}: {reported:?}");
        assert!(reported.stderr.contains("vestal kanban list"), "{wrong}: {reported:?}");
    }
    // Forty names begin with at most 32 letters.
    let shared = ids
        .iter()
        .find_map(|one| {
            let others = ids.iter().filter(|other| other[..3] == one[..3]);
            (others.count() > 1).then(|| one[..3].to_owned())
        })
        .unwrap();
    let reported = refused(&fixture, &["complete", &shared], 1);
    assert!(reported.contains("may mean"), "{reported}");
    for verb in ["reclaim", "reopen", "runs", "context", "unblock", "archive", "claim", "log"] {
        refused(&fixture, &[verb, "t_zzzzzzzzzzzz"], 1);
    }
}

#[test]
fn what_is_too_long_or_no_text_is_refused() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a"]);
    let long = "x".repeat(501);
    for title in ["", "  ", "two\nlines", long.as_str()] {
        let reported = kanban(&fixture, &["create", title]).exits(2);
        assert!(reported.stderr.contains("the title"), "{reported:?}");
    }
    let body = vec![b'x'; (1 << 20) + 1];
    let reported = fixture.vestal_with(["kanban", "create", "b", "--body", "-"], &body).exits(2);
    assert!(reported.stderr.contains("the body has 1048577 bytes"), "{reported:?}");
    let comment = vec![b'x'; (64 << 10) + 1];
    fixture.vestal_with(["kanban", "comment", &id, "-"], &comment).exits(2);
    kanban(&fixture, &["comment", &id, " "]).exits(2);
    kanban(&fixture, &["create", "b", "--priority", "99999999999"]).exits(2);
    kanban(&fixture, &["create", "b", "--max-runtime", "0"]).exits(2);
    kanban(&fixture, &["create", "b", "--max-retries", "0"]).exits(2);
    kanban(&fixture, &["create", "b", "--parent", "t_zzzzzzzzzzzz"]).exits(1);
    kanban(&fixture, &["create", "b", "--assignee", "no/name"]).exits(1);
    kanban(&fixture, &["create"]).exits(2);
    assert_eq!(json(&fixture, &["list", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn hostile_text_commands_no_terminal() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a", "--body", "\u{1b}[2J\u{9b}31m\u{7}", "--tenant", "t"]);
    done(&fixture, &["comment", &id, "\u{1b}]0;owned\u{7}"]);
    done(&fixture, &["block", &id, "\u{1b}[31mred"]);
    for args in [
        &["show", &id][..],
        &["show", &id, "--json"],
        &["list"],
        &["list", "--json"],
        &["context", &id],
        &["diagnostics"],
    ] {
        let outcome = kanban(&fixture, args);
        let text = outcome.text() + &outcome.stderr;
        assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{7}']), "{args:?}: {text:?}");
    }
}

#[test]
fn a_damaged_board_is_reported_and_left_alone() {
    let fixture = ProgramFixture::new();
    create(&fixture, &["a"]);
    let file = fixture.home().join("kanban/boards/default/kanban.db");
    let garbage = b"this is not a database at all, and long enough to be looked at".repeat(100);
    fs::write(&file, &garbage).unwrap();
    for args in [&["list"][..], &["create", "b"], &["stats"]] {
        let reported = kanban(&fixture, args).exits(125);
        assert!(reported.stderr.contains("is damaged"), "{reported:?}");
        assert!(reported.stderr.contains("move it away"), "{reported:?}");
    }
    assert_eq!(fs::read(&file).unwrap(), garbage);
    let listed = kanban(&fixture, &["boards", "list"]).exits(0);
    assert!(listed.text().contains("unreadable"), "{listed:?}");
}

#[test]
fn a_board_of_a_newer_version_is_reported_and_left_alone() {
    let fixture = ProgramFixture::new();
    create(&fixture, &["a"]);
    let file = fixture.home().join("kanban/boards/default/kanban.db");
    // The version stands in the file's header, big-endian.
    let mut bytes = fs::read(&file).unwrap();
    bytes[60..64].copy_from_slice(&9999_u32.to_be_bytes());
    fs::write(&file, &bytes).unwrap();
    for args in [&["list"][..], &["create", "b"]] {
        let reported = kanban(&fixture, args).exits(125);
        assert!(
            reported.stderr.contains("9999") && reported.stderr.contains("newer"),
            "{reported:?}"
        );
    }
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

#[test]
fn a_home_that_cannot_be_written_is_reported_with_what_to_do() {
    let fixture = ProgramFixture::new();
    let file = fixture.work().join("file");
    fs::write(&file, "").unwrap();
    let mut command = fixture.command(["kanban", "create", "a"]);
    command.env("VESTAL_HOME", file.join("home"));
    let reported = finish(command.spawn().unwrap()).exits(125);
    assert!(reported.stderr.starts_with("error:"), "{reported:?}");
}

/// Calls the program, `$1`, on a home, `$2`, whose disk cannot be written.
const READ_ONLY: &str = "
    mount --bind \"$2\" \"$2\"
    mount -o remount,ro,bind \"$2\"
    \"$1\" kanban create b && exit 1
    echo $?
";

#[test]
fn a_disk_that_cannot_be_written_is_reported_and_nothing_is_lost() {
    let fixture = ProgramFixture::new();
    let id = create(&fixture, &["a"]);
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-uc", READ_ONLY, "sh"])
        .args([env!("CARGO_BIN_EXE_vestal").into(), fixture.home()])
        .env_clear()
        .envs(fixture.environment())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let reported = finish(command.spawn().unwrap()).exits(0);
    assert_eq!(reported.text(), "125\n", "{reported:?}");
    assert!(reported.stderr.starts_with("error: cannot use"), "{reported:?}");
    assert!(
        reported.stderr.contains("kanban.db") && reported.stderr.contains("VESTAL_HOME"),
        "{reported:?}"
    );
    let listed = json(&fixture, &["list", "--json"]);
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &id.into()));
}
