//! The image, on a real engine. `scripts/test image` makes it and says which it is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod container;

use container::{Container, Volume, run};

/// The user of the image.
const USER: &str = "10000";

#[test]
fn three_profiles_come_back_after_a_kill_as_they_were() {
    let volume = Volume::new();
    let container = Container::start(&volume, &[], &["gateway", "run"]);
    container.until_running("default");
    for profile in ["ada", "ben"] {
        container.vestal(&["profile", "create", profile]).ok();
        container.vestal(&["-p", profile, "gateway", "start"]).ok();
    }
    container.vestal(&["-p", "ben", "gateway", "stop"]).ok();
    container.kill();
    container.start_again();
    container.until_running("default");
    container.until_running("ada");
    let ben = container.vestal(&["-p", "ben", "gateway", "status", "--json"]).stdout;
    assert!(
        ben.contains("\"state\": \"stopped\"") || ben.contains("\"state\":\"stopped\""),
        "{ben}"
    );
    let boots = container.exec(&["cat", "/opt/data/logs/container-boot.log"]).ok();
    let last: Vec<&str> = boots.lines().rev().take(3).collect();
    for wanted in [
        "profile=ada prior_state=running action=started",
        "profile=ben prior_state=stopped action=registered",
    ] {
        assert!(last.iter().any(|line| line.ends_with(wanted)), "{boots}");
    }
    // Every file is the user's, whoever made it.
    assert_eq!(container.exec(&["find", "/opt/data", "!", "-user", USER]).ok(), "");
    assert_eq!(container.exec(&["stat", "-c", "%U", "/proc/1"]).ok(), "vestal\n");
    assert_eq!(container.exec(&["/opt/vestal/bin/health"]).code, 0);
    assert!(container.logs().contains("default: "), "{}", container.logs());
}

#[test]
fn a_second_container_on_the_same_directory_is_refused() {
    let volume = Volume::new();
    let first = Container::start(&volume, &[], &["supervise"]);
    first.until_supervised();
    let second = run(&volume, &[], &["gateway", "run"]);
    assert_ne!(second.code, 0, "{second:?}");
    assert!(second.stderr.contains("is supervised already by process 1 on "), "{second:?}");
    // The first goes on.
    assert_eq!(first.exec(&["/opt/vestal/bin/health"]).code, 0);
}

#[test]
fn arguments_are_a_verb_a_program_or_an_error() {
    let volume = Volume::new();
    assert!(run(&volume, &[], &["--version"]).ok().starts_with("vestal "));
    assert_eq!(run(&volume, &[], &["id", "-u"]).ok(), format!("{USER}\n"));
    assert_eq!(run(&volume, &[], &["sh", "-c", "exit 7"]).code, 7);
    // A verb, though there is a program of that name.
    assert_eq!(run(&volume, &[], &["ps", "--json"]).ok().trim(), "[]");
    assert_eq!(run(&volume, &[], &["-p", "default", "ps", "--json"]).ok().trim(), "[]");
    let unknown = run(&volume, &[], &["no-such-thing"]);
    assert_eq!(unknown.code, 127, "{unknown:?}");
    assert!(unknown.stderr.contains("neither a verb of vestal nor a program"), "{unknown:?}");
    // Sandboxes work in there, and are found again by the next container.
    run(&volume, &[], &["run", "echo lit > light"]).ok();
    assert_eq!(run(&volume, &[], &["run", "cat light"]).ok(), "lit\n");
}

#[test]
fn another_init_may_be_the_first_process() {
    let volume = Volume::new();
    let container = Container::start(&volume, &["--init"], &["gateway", "run"]);
    container.until_running("default");
    container.stop();
    assert!(!container.is_running());
}

#[test]
fn calls_of_root_become_the_users_by_default() {
    let volume = Volume::new();
    let container = Container::start(&volume, &[], &["sleep", "infinity"]);
    container.until_supervised();
    container.vestal(&["config", "set", "terminal.timeout", "99"]).ok();
    assert_eq!(container.exec(&["stat", "-c", "%u", "/opt/data/config.yaml"]).ok().trim(), USER);
    let refused = |value: &str| {
        let option = format!("VESTAL_DOCKER_EXEC_AS_ROOT={value}");
        let serve = ["vestal", "gateway", "run", "--no-supervise"];
        let outcome = container.exec_with(&["-e", &option], &serve);
        outcome.code == 78 && outcome.stderr.contains("does not run as root inside the image")
    };
    for value in ["1", "true", "Yes"] {
        assert!(refused(value), "{value}");
    }
    // A typo does not make anybody root.
    let option = ["-e", "VESTAL_DOCKER_EXEC_AS_ROOT=0"];
    container.exec_with(&option, &["vestal", "profile", "create", "eve"]).ok();
    assert_eq!(container.exec(&["find", "/opt/data", "!", "-user", USER]).ok(), "");
}

#[test]
fn who_cannot_become_the_user_is_refused_with_126() {
    let options = ["--cap-drop", "ALL", "--entrypoint", "/opt/vestal/bin/vestal"];
    let outcome = run(&Volume::new(), &options, &["ps"]);
    assert_eq!(outcome.code, 126, "{outcome:?}");
    assert!(outcome.stderr.contains("cannot become user 10000"), "{outcome:?}");
}

#[test]
fn a_directory_that_is_no_home_is_left_as_it_is() {
    let volume = Volume::new();
    let shell = ["--entrypoint", "/bin/sh"];
    run(&volume, &shell, &["-c", "echo mine >/opt/data/thesis; chown -R 1234 /opt/data"]).ok();
    let outcome = run(&volume, &[], &["gateway", "run"]);
    assert_eq!(outcome.code, 78, "{outcome:?}");
    assert!(outcome.stderr.contains("is no home of Vestal's"), "{outcome:?}");
    assert!(outcome.stderr.contains("-e VESTAL_UID=1234"), "{outcome:?}");
    let owners = run(&volume, &shell, &["-c", "stat -c %u /opt/data /opt/data/thesis"]).ok();
    assert_eq!(owners, "1234\n1234\n");
    // As its owner it can be used.
    assert_eq!(run(&volume, &["-e", "VESTAL_UID=1234"], &["id", "-u"]).ok(), "1234\n");
}

#[test]
fn a_home_of_another_user_is_taken_over_but_for_files_of_others() {
    let volume = Volume::new();
    let shell = ["--entrypoint", "/bin/sh"];
    let make = "cd /opt/data; mkdir -p sandboxes/a; touch sandboxes/a/own sandboxes/a/other; \
                chown -R 1234 .; chown 5678 sandboxes/a/other";
    run(&volume, &shell, &["-c", make]).ok();
    run(&volume, &[], &["true"]).ok();
    let look = "cd /opt/data; stat -c %u . sandboxes/a/own sandboxes/a/other";
    assert_eq!(run(&volume, &shell, &["-c", look]).ok(), format!("{USER}\n{USER}\n5678\n"));
}
