//! What goes wrong, each with what to do next.

use crate::support::{BASE, ProgramFixture, ProgramOutcome, finish};

/// Checks that a failure of Vestal's own names these and left nothing behind.
#[track_caller]
fn fails(fixture: &ProgramFixture, outcome: ProgramOutcome, parts: &[&str]) {
    exits(125, fixture, outcome, parts);
}

/// The same of a mistake on the command line.
#[track_caller]
fn is_refused(fixture: &ProgramFixture, outcome: ProgramOutcome, parts: &[&str]) {
    exits(2, fixture, outcome, parts);
}

#[track_caller]
fn exits(code: i32, fixture: &ProgramFixture, outcome: ProgramOutcome, parts: &[&str]) {
    let outcome = outcome.exits(code);
    for part in parts {
        assert!(outcome.stderr.contains(part), "{part}: {outcome:?}");
    }
    assert_eq!(outcome.text(), "", "nothing ran");
    assert_eq!(fixture.containers(), [""; 0]);
}

#[test]
fn an_image_that_cannot_be_had_is_named() {
    let fixture = ProgramFixture::docker();
    // Nobody serves images there.
    let image = "127.0.0.1:1/vestal-test/none:1";
    let outcome = fixture.vestal(["run", "--image", image, "echo ran"]);
    let printed = format!("image {image} is not available: ");
    fails(&fixture, outcome, &[&printed, &format!("see what `docker pull {image}` says")]);
    assert_eq!(fixture.tasks(), [""; 0]);
    let json = fixture.vestal(["run", "--json", "--image", image, "echo ran"]).exits(125).json();
    assert!(json["error"].as_str().unwrap().contains("is not available"), "{json}");
    assert!(json["advice"][0].as_str().unwrap().contains("docker pull"), "{json}");
}

#[test]
fn an_engine_that_is_not_there_is_named_with_who_says_where_it_is() {
    let fixture = ProgramFixture::docker();
    fixture.run("true").exits(0);
    fixture.vestal(["stop"]).exits(0);
    let away = |args: &[&str]| {
        let mut command = fixture.command(args);
        finish(command.env("DOCKER_HOST", "unix:///nobody/engine.sock").spawn().unwrap())
    };
    for args in [&["run", "echo ran"][..], &["run", "-t", "new", "echo ran"], &["stop"]] {
        let outcome = away(args).exits(125);
        let printed =
            "the container engine at unix:///nobody/engine.sock (DOCKER_HOST) cannot be reached";
        assert!(outcome.stderr.contains(printed), "{outcome:?}");
        assert!(outcome.stderr.contains("change or unset DOCKER_HOST"), "{outcome:?}");
        assert_eq!(outcome.text(), "");
    }
    // What cannot be determined is not a success.
    let listed = away(&["ps", "--json"]).exits(1).json();
    assert_eq!(listed[0]["state"], "unknown");
    assert!(listed[0]["trouble"].as_str().unwrap().contains("cannot be reached"), "{listed}");
    let shown = away(&["ps"]).exits(1);
    assert!(shown.stderr.contains("warning: default: "), "{shown:?}");
    let ill = away(&["doctor"]).exits(1).text();
    assert!(ill.contains("broken  backend docker: the container engine at"), "{ill}");
    fixture.run("true").exits(0);
}

#[test]
fn settings_that_make_no_container_are_named_with_what_is_allowed() {
    let fixture = ProgramFixture::docker();
    let run = |set: &str| fixture.vestal(["--set", set, "run", "echo ran"]);
    is_refused(
        &fixture,
        run("terminal.docker_volumes=[\"/only-a-source\"]"),
        &["terminal.docker_volumes", "/only-a-source", "SOURCE:TARGET", "vestal config show"],
    );
    is_refused(
        &fixture,
        run("terminal.docker_extra_args=[\"--frobnicate\"]"),
        &["terminal.docker_extra_args", "--frobnicate", "--cap-add", "vestal config show"],
    );
    fails(
        &fixture,
        run("terminal.docker_volumes=[\"/no/such/directory:/x\"]"),
        &["/no/such/directory"],
    );
    assert_eq!(fixture.vestal(["ps", "--json"]).exits(0).json(), serde_json::json!([]));
}

#[test]
fn a_name_that_is_taken_is_reported_and_what_has_it_is_left_alone() {
    let fixture = ProgramFixture::docker();
    fixture.run("true").exits(0);
    let name = fixture.containers().remove(0);
    fixture.vestal(["rm", "-y", "default"]).exits(0);
    // Carries the home's label, so that it is cleared away afterwards.
    make_foreign(&fixture, &name, &fixture.home_label().unwrap());
    let outcome = fixture.run("echo ran").exits(125);
    assert!(outcome.stderr.contains(&format!("the name {name} is taken")), "{outcome:?}");
    assert!(outcome.stderr.contains("rename or remove it"), "{outcome:?}");
    assert_eq!(fixture.containers(), [name]);
}

/// Makes a container that is none of Vestal's; it is not started.
fn make_foreign(fixture: &ProgramFixture, name: &str, label: &str) {
    let (label, value) = label.split_once('=').unwrap();
    let body = serde_json::json!({ "Image": BASE, "Cmd": ["true"], "Labels": { label: value } });
    let path = format!("/containers/create?name={name}");
    let answer = fixture.engine().ask("POST", &path, Some(&body));
    assert_eq!(answer.status, 201, "{}", answer.body);
}
