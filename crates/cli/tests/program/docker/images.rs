//! An image for one sandbox alone.

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
