//! What is there for the next process.

use std::fs;

use rustix::process::Signal;

use crate::support::ProgramFixture;

/// Starts a server on the container's loopback and returns its job.
fn serve(fixture: &ProgramFixture) -> String {
    let job = fixture.background(
        "mkdir /tmp/www && echo served > /tmp/www/index.html && exec httpd -f -p 127.0.0.1:8000 -h /tmp/www",
    );
    fixture.run("until wget -qO- http://127.0.0.1:8000/; do sleep 0.1; done").exits(0);
    job
}

#[test]
fn a_file_and_a_server_are_there_for_a_new_process_also_after_kill_9() {
    let fixture = ProgramFixture::docker();
    let hostname = fixture.run("echo kept > note; hostname").exits(0).text();
    let server = serve(&fixture);
    let mut killed = fixture.start(["run", "echo begun; sleep 1000"]);
    assert_eq!(killed.line(), "begun");
    killed.signal(Signal::KILL);
    killed.end();

    let text = "hostname; cat note; wget -qO- http://127.0.0.1:8000/";
    let again = fixture.vestal(["run", "--json", text]).exits(0).json();
    assert_eq!(again["stdout"], format!("{hostname}kept\nserved\n"));
    assert_eq!(again["sandbox"]["backend"], "docker");
    assert_eq!(again["sandbox"]["state_before"], "running");
    assert_eq!(again["sandbox"]["attached"], true);
    assert_eq!(fixture.job(&server)["state"], "running");
    let running = fixture.vestal(["jobs", "--json"]).exits(0).json();
    assert_eq!(running.as_array().unwrap().len(), 2, "the command of the killed process runs on");
    assert_eq!(fixture.containers().len(), 1);
}

#[test]
fn a_stopped_sandbox_is_started_again_with_every_file_and_no_process() {
    let fixture = ProgramFixture::docker();
    let hostname = fixture.run("echo kept > note; echo installed > /opt-tool; hostname").exits(0);
    let server = serve(&fixture);
    assert_eq!(fixture.vestal(["stop"]).exits(0).text(), "stopped default\n");
    assert_eq!(fixture.vestal(["ps", "--json"]).exits(0).json()[0]["state"], "stopped");
    assert_eq!(
        fixture.engine().inspect(&fixture.containers()[0]).unwrap()["State"]["Running"],
        false
    );

    let text = "cat note /opt-tool; hostname; wget -qO- http://127.0.0.1:8000/ || echo gone";
    let again = fixture.vestal(["run", "--json", text]).exits(0).json();
    assert_eq!(again["stdout"], format!("kept\ninstalled\n{}gone\n", hostname.text()));
    assert_eq!(again["sandbox"]["state_before"], "stopped");
    assert_eq!(fixture.job(&server)["state"], "ended");
}

#[test]
fn removal_keeps_workspace_and_home_unless_the_files_are_to_go() {
    let fixture = ProgramFixture::docker();
    fixture.run("echo workspace > note; echo home > ~/note").exits(0);
    let dir = fixture.home().join("sandboxes/default");
    let container = fixture.containers().remove(0);
    let asked = fixture.vestal(["rm", "default"]).exits(2);
    assert!(asked.stderr.contains(&format!("(container {container})")), "{asked:?}");
    assert!(asked.stderr.contains("everything installed in it"), "{asked:?}");
    assert!(asked.stderr.contains(&format!("kept: {}", dir.join("workspace").display())));

    let removed = fixture.vestal(["rm", "-y", "--json", "default"]).exits(0).json();
    assert_eq!(removed[0]["instances"], 1);
    assert_eq!(removed[0]["kept"][0], dir.join("workspace").to_str().unwrap());
    assert_eq!(fixture.containers(), [""; 0]);
    assert_eq!(fixture.vestal(["ps", "--json"]).json()[0]["state"], "absent");
    assert_eq!(fixture.run("cat note ~/note").exits(0).text(), "workspace\nhome\n");

    let removed = fixture.vestal(["rm", "-y", "--files", "default"]).exits(0);
    assert_eq!(removed.text(), "removed default (1 instance)\n");
    assert_eq!(fixture.containers(), [""; 0]);
    assert!(!dir.exists());
    fixture.run("test ! -e note && test ! -e ~/note").exits(0);
}

#[test]
fn changed_settings_are_reported_with_the_command_that_applies_them() {
    let fixture = ProgramFixture::docker();
    let before = fixture.run("echo kept > note; hostname").exits(0).text();
    let set = "terminal.docker_image=vestal-test/busybox:latest";
    let drifted = fixture.vestal(["--set", set, "run", "hostname"]).exits(0);
    assert_eq!(drifted.text(), before);
    let remedy = "vestal rebuild default";
    assert!(drifted.stderr.contains("terminal.docker_image (vestal-test/base:latest → "));
    assert!(drifted.stderr.contains(remedy), "{drifted:?}");

    let words = remedy.split(' ').skip(1).chain(["-y"]);
    fixture.vestal(["--set", set].into_iter().chain(words)).exits(0);
    let after = fixture.vestal(["--set", set, "run", "hostname; cat note"]).exits(0);
    assert!(!after.text().starts_with(&before) && after.text().ends_with("kept\n"), "{after:?}");
    assert_eq!(after.stderr, "");
}

#[test]
fn pruning_removes_containers_nobody_can_want_also_without_a_directory() {
    let fixture = ProgramFixture::docker();
    fixture.run("true").exits(0);
    assert_eq!(prune(&fixture, &["--dry-run"]), serde_json::json!([]), "it runs");
    fixture.vestal(["stop"]).exits(0);
    fs::remove_dir_all(fixture.home().join("sandboxes/default")).unwrap();
    // Once it has been stopped for a second.
    let would = loop {
        let would = prune(&fixture, &["--dry-run"]);
        if would != serde_json::json!([]) {
            break would;
        }
    };
    assert_eq!(would[0]["task"], "default");
    assert_eq!(would[0]["reason"], "expired");
    assert_eq!(fixture.containers().len(), 1);
    assert_eq!(prune(&fixture, &[])[0]["removed"], true);
    assert_eq!(fixture.containers(), [""; 0]);
}

fn prune(fixture: &ProgramFixture, more: &[&str]) -> serde_json::Value {
    let args = ["--set", "terminal.retention_seconds=1", "prune", "--json"];
    fixture.vestal(args.iter().chain(more)).exits(0).json()
}
