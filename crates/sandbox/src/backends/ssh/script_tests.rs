use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};

use super::*;

/// The login shells of this machine.
fn shells() -> Vec<String> {
    ["sh", "bash", "dash", "fish", "tcsh", "zsh", "ksh"]
        .iter()
        .flat_map(|name| ["/bin", "/usr/bin"].map(|dir| format!("{dir}/{name}")))
        .filter(|path| Path::new(path).exists())
        .collect()
}

/// Runs a command as a login shell of that user would, and returns what it prints.
fn printed(shell: &str, home: &Path, command: &str, input: &[u8]) -> String {
    let mut child = Command::new(shell)
        .args(["-c", command])
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // One that refuses reads nothing.
    child.stdin.take().unwrap().write_all(input).ok();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

fn reported(output: &str, nonce: &Nonce) -> Reported {
    let lines = output.lines().filter_map(|line| line.strip_prefix(nonce.as_str()));
    let mut reported = lines.map(|line| Reported::parse(line.trim_start()).unwrap());
    reported.rfind(|reported| *reported != Reported::Ready).unwrap()
}

/// A program that prints its arguments.
const PROGRAM: &[u8] = b"#!/bin/sh\necho \"arguments: $*\"\n";

fn hash() -> String {
    crate::key::hex(&Sha256::digest(PROGRAM))
}

#[test]
fn every_login_shell_stores_the_program_once_and_runs_it() {
    let shells = shells();
    assert!(shells.len() > 1, "{shells:?}");
    for shell in shells {
        let home = tempfile::tempdir().unwrap();
        // A home may be called anything.
        let home = home.path().join("o'ne \"two\" $three !four");
        fs::create_dir(&home).unwrap();
        let nonce = Nonce::new().unwrap();
        let run = run(&nonce, &hash());
        let needed = reported(&printed(&shell, &home, &run, b""), &nonce);
        let Reported::Needed { system, processor } = needed else {
            panic!("{shell}: {needed:?}");
        };
        assert_eq!((&*system, &*processor), ("Linux", std::env::consts::ARCH), "{shell}");
        let store = store(&nonce, "guest", &hash(), PROGRAM.len());
        let stored = reported(&printed(&shell, &home, &store, PROGRAM), &nonce);
        assert_eq!(stored, Reported::Stored, "{shell}");
        let bin = home.join(".vestal-ssh/bin");
        let left: Vec<_> = fs::read_dir(&bin).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, [&*format!("guest-{}", hash())], "{shell}");
        assert_eq!(fs::metadata(&bin).unwrap().permissions().mode() & 0o777, 0o700, "{shell}");
        let output = printed(&shell, &home, &run, b"");
        let expected = format!(
            "\n{} run\narguments: machine {}/.vestal-ssh\n",
            nonce.as_str(),
            home.display()
        );
        assert_eq!(output, expected, "{shell}");
    }
}

#[test]
fn a_program_that_does_not_arrive_as_it_is_is_never_put_in_place() {
    let home = tempfile::tempdir().unwrap();
    let nonce = Nonce::new().unwrap();
    let store = store(&nonce, "guest", &hash(), PROGRAM.len());
    let other = vec![b'x'; PROGRAM.len()];
    for wrong in [&PROGRAM[..PROGRAM.len() - 1], b"", &other] {
        let refused = reported(&printed("/bin/sh", home.path(), &store, wrong), &nonce);
        assert!(matches!(refused, Reported::Refused(_)), "{refused:?}");
        let bin = home.path().join(".vestal-ssh/bin");
        assert_eq!(fs::read_dir(bin).unwrap().count(), 0);
    }
}

#[test]
fn what_is_no_report_is_none() {
    for wrong in ["", "running", "need", "need Linux", "stor", " run"] {
        assert_eq!(Reported::parse(wrong), None, "{wrong}");
    }
    let needed = Reported::Needed { system: "Linux".into(), processor: "x86_64".into() };
    assert_eq!(Reported::parse("need Linux x86_64"), Some(needed));
}
