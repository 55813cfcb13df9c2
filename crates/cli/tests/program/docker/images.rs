//! An image for one sandbox alone.

use rustix::process::Signal;

use crate::support::ProgramFixture;

const BUSYBOX: &str = "vestal-test/busybox:latest";

#[test]
fn an_image_asked_for_stays_with_its_sandbox() {
    let fixture = ProgramFixture::docker();
    fixture.vestal(["run", "-t", "small", "--image", BUSYBOX, "true"]).exits(0);
    fixture.vestal(["run", "true"]).exits(0);
    let later = fixture.vestal(["run", "-t", "small", "test ! -e /bin/bash"]).exits(0);
    assert_eq!(later.stderr, "");
    let listed = fixture.vestal(["inspect", "--json", "small", "default"]).exits(0).json();
    assert_eq!(listed[0]["image"], BUSYBOX);
    assert_eq!(listed[0]["overrides"]["image"], BUSYBOX);
    assert_eq!(listed[1]["image"], crate::support::BASE);
    assert_eq!(listed[1]["overrides"]["image"], serde_json::Value::Null);
}

#[test]
fn a_sandbox_of_another_image_is_refused_before_anything_runs_in_it() {
    let fixture = ProgramFixture::docker();
    fixture.run("true").exits(0);
    let refused = fixture.vestal(["run", "--image", BUSYBOX, "touch ran"]).exits(125);
    assert!(
        refused.stderr.contains("was created from image vestal-test/base:latest, not from"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("-t TASK"), "{refused:?}");
    fixture.run("test ! -e ran").exits(0);
}

#[test]
fn asking_for_an_image_is_asking_for_a_container() {
    let fixture = ProgramFixture::docker();
    // Left to itself, the choice would fall on a backend without images.
    let sets = ["terminal.backend=auto", "terminal.docker_image=vestal-test/none:1"];
    let auto = ["--set", sets[0], "--set", sets[1], "run", "--json", "--image", BUSYBOX, "true"];
    assert_eq!(fixture.vestal(auto).exits(0).json()["sandbox"]["backend"], "docker");
    let local = fixture.vestal(["run", "-b", "local", "--image", BUSYBOX, "true"]).exits(2);
    assert!(local.stderr.contains("-b docker"), "{local:?}");
}

const OPT_OUT: [&str; 2] = ["--set", "terminal.persist_across_processes=false"];

#[test]
fn nothing_is_left_when_the_command_ends_but_the_files() {
    let fixture = ProgramFixture::docker();
    let run = |text: &str| fixture.vestal(OPT_OUT.into_iter().chain(["run", text])).exits(0);
    let first = run("echo kept > note; hostname").text();
    assert_eq!(fixture.containers(), [""; 0]);
    let second = run("cat note; hostname").text();
    assert!(second.starts_with("kept\n") && !second.ends_with(&first), "{second}");
    assert_eq!(fixture.containers(), [""; 0]);
    fixture.vestal(["rm", "-y", "--files", "default"]).exits(0);
    assert!(!fixture.home().join("sandboxes/default").exists());
}

#[test]
fn nothing_is_left_when_the_command_is_interrupted() {
    let fixture = ProgramFixture::docker();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut started =
            fixture.start(OPT_OUT.into_iter().chain(["run", "echo begun; sleep 1000"]));
        assert_eq!(started.line(), "begun");
        assert_eq!(fixture.containers().len(), 1);
        started.signal(signal);
        assert_eq!(started.end().0, code);
        assert_eq!(fixture.containers(), [""; 0]);
    }
}

#[test]
fn nothing_is_left_when_it_is_interrupted_while_it_starts() {
    let fixture = ProgramFixture::docker();
    // The first one finds out what has to be known of the image, in a container too.
    for _ in 0..2 {
        let started = fixture.start(OPT_OUT.into_iter().chain(["run", "true"]));
        while fixture.containers().is_empty() {
            std::thread::yield_now();
        }
        started.signal(Signal::TERM);
        let (code, printed) = started.end();
        // It may have ended before it was asked to.
        assert!(code == 143 || code == 0, "{code}: {printed}");
        assert_eq!(fixture.containers(), [""; 0], "{printed}");
    }
}
