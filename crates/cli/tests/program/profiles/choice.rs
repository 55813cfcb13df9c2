//! Which profile a command uses.

use std::fs;

use super::create;
use crate::support::{ProgramFixture, finish};

#[test]
fn the_option_goes_before_the_variable_before_the_choice() {
    let fixture = ProgramFixture::new();
    for name in ["a", "b", "c"] {
        create(&fixture, name);
    }
    let used = |args: &[&str], variable: Option<&str>| {
        let mut command = fixture.command(args.iter().chain(&["config", "path"]));
        if let Some(value) = variable {
            command.env("VESTAL_PROFILE", value);
        }
        let path = finish(command.spawn().unwrap()).exits(0).text();
        let dir = path.trim().strip_suffix("/config.yaml").unwrap().to_owned();
        dir.rsplit('/').next().unwrap().to_owned()
    };
    assert_eq!(used(&[], None), "vestal", "the profile default");
    let chosen = fixture.vestal(["profile", "use", "C"]).exits(0);
    assert_eq!(chosen.text(), "now using profile c\n");
    assert_eq!(used(&[], None), "c");
    assert_eq!(used(&[], Some("b")), "b");
    assert_eq!(used(&["-p", "a"], Some("b")), "a");
    assert_eq!(used(&["--profile=default"], Some("b")), "vestal");
    let after = fixture.vestal(["config", "path", "-p", "a"]).exits(0).text();
    assert!(after.ends_with("/profiles/a/config.yaml\n"), "{after}");
    let mut command = fixture.command(["profile", "use", "a"]);
    let hidden = finish(command.env("VESTAL_PROFILE", "b").spawn().unwrap()).exits(0);
    assert!(hidden.stderr.contains("VESTAL_PROFILE"), "{hidden:?}");
    fixture.vestal(["profile", "use", "default"]).exits(0);
    assert_eq!(used(&[], None), "vestal");
}

#[test]
fn a_choice_that_cannot_be_followed_locks_nobody_out_and_changes_nothing_elsewhere() {
    let fixture = ProgramFixture::new();
    create(&fixture, "work");
    let file = fixture.home().join("active_profile");
    for broken in [&b"gone\n"[..], b"../../etc\n", b"\xff\xfe"] {
        fs::write(&file, broken).unwrap();
        for args in [
            &["profile", "list"][..],
            &["profile", "show"],
            &["profile", "show", "work"],
            &["config", "path"],
            &["config", "docs"],
            &["--version"],
            &["--help"],
            &["profile", "--help"],
            &["completions", "bash"],
            &["doctor"],
            &["-p", "work", "ps"],
        ] {
            fixture.vestal(args).exits(0);
        }
        let doctor = fixture.vestal(["doctor", "--json"]).exits(0).json();
        let checks = doctor["checks"].as_array().unwrap();
        assert!(checks.iter().any(|check| check["name"] == "profile"), "{checks:?}");
        for args in [["config", "path"], ["profile", "list"], ["profile", "show"]] {
            let reported = fixture.vestal(args).exits(0);
            assert_eq!(
                reported.stderr.matches("vestal profile use default").count(),
                1,
                "{reported:?}"
            );
        }
        for args in [
            &["ps"][..],
            &["run", "true"],
            &["config", "get", "terminal.backend"],
            &["config", "set", "terminal.timeout", "5"],
            &["profile", "create", "copy", "--clone"],
            &["profile", "export"],
        ] {
            let refused = fixture.vestal(args).exits(1);
            assert!(refused.stderr.contains("vestal profile use default"), "{refused:?}");
            assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
        }
        assert!(!fixture.home().join("config.yaml").exists(), "default was not changed instead");
        fixture.vestal(["profile", "use", "default"]).exits(0);
        fixture.vestal(["ps"]).exits(0);
    }
    // A directory where the file should be is no obstacle either.
    fs::create_dir(&file).unwrap();
    fixture.vestal(["ps"]).exits(1);
    fixture.vestal(["profile", "use", "work"]).exits(0);
    fixture.vestal(["profile", "use", "default"]).exits(0);
    fixture.vestal(["ps"]).exits(0);
}

#[test]
fn a_profile_that_only_the_variable_names_can_be_made() {
    let fixture = ProgramFixture::new();
    let run = |args: &[&str]| {
        let mut command = fixture.command(args);
        finish(command.env("VESTAL_PROFILE", "new").spawn().unwrap())
    };
    let missing = run(&["ps"]).exits(1);
    assert!(missing.stderr.contains("no profile new (VESTAL_PROFILE)"), "{missing:?}");
    run(&["profile", "create", "new"]).exits(0);
    run(&["ps"]).exits(0);
}
