//! Containers of hermes-agent that become sandboxes.

use std::process::{Command, Stdio};

use serde_json::Value;
use vestal_testkit::processes::marker;
use vestal_testkit::programs::{ProgramOutcome, run};

use crate::support::{BASE, ProgramFixture};

/// A container as hermes-agent keeps one, with a directory of the host as its workspace.
struct OldContainer<'f> {
    fixture: &'f ProgramFixture,
    id: String,
}

impl<'f> OldContainer<'f> {
    fn start(fixture: &'f ProgramFixture, task: &str, profile: &str) -> Self {
        let workspace = fixture.user().join(format!(".hermes/sandboxes/docker/{task}/workspace"));
        std::fs::create_dir_all(&workspace).unwrap();
        let mount = format!("{}:/workspace", workspace.display());
        let labels = [
            "hermes-agent=1",
            &format!("hermes-task-id={task}"),
            &format!("hermes-profile={profile}"),
        ]
        .map(|label| ["--label".to_owned(), label.to_owned()])
        .concat();
        let mut command = docker(fixture);
        command.args(["run", "--detach", "--network", "none", "--volume", &mount]).args(labels);
        let id = run(command.args([BASE, "sleep", "infinity"])).exits(0).text();
        Self { fixture, id: id.trim().to_owned() }
    }

    fn exec(&self, text: &str) -> ProgramOutcome {
        run(docker(self.fixture).args(["exec", &self.id, "sh", "-c", text])).exits(0)
    }
}

impl Drop for OldContainer<'_> {
    fn drop(&mut self) {
        let image = "reference=localhost/vestal-migrated/*";
        let listed = ["image", "ls", "--quiet", "--filter", image];
        let images = run(docker(self.fixture).args(listed)).text();
        run(docker(self.fixture).args(["rm", "--force", "--volumes", &self.id]));
        for image in images.split_whitespace() {
            run(docker(self.fixture).args(["image", "rm", "--force", image]));
        }
    }
}

fn docker(fixture: &ProgramFixture) -> Command {
    let mut command = Command::new("docker");
    command
        .env("DOCKER_HOST", fixture.engine().address())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn containers(view: &Value) -> Vec<(String, String)> {
    let items = view["items"].as_array().unwrap().iter();
    let text = |item: &Value, field: &str| item[field].as_str().unwrap().to_owned();
    let meant = items.filter(|item| item["kind"] == "container");
    meant.map(|item| (text(item, "to"), text(item, "action"))).collect()
}

#[test]
fn what_is_in_a_container_of_the_other_program_is_in_a_sandbox_and_the_container_stays() {
    let fixture = ProgramFixture::docker();
    // The labels say nothing of the home: another test may run beside this one.
    let profile = format!("p{}", marker().replace('.', "-"));
    let there = fixture.user().join(".hermes/profiles").join(&profile);
    std::fs::create_dir_all(&there).unwrap();
    std::fs::write(there.join("SOUL.md"), "x\n").unwrap();
    fixture.vestal(["profile", "create", &profile]).exits(0);
    let old = OldContainer::start(&fixture, "lamp", &profile);
    let others = OldContainer::start(&fixture, "lamp-of-others", "somebody");
    old.exec("set -e; mkdir -p /opt; echo lit > /opt/light; echo oil > /workspace/oil; chmod 600 /workspace/oil");
    std::fs::write(fixture.user().join(".hermes/SOUL.md"), "x\n").unwrap();
    let migrate = |more: &[&str]| {
        fixture.vestal([&["migrate", "--only", "container", "--json"][..], more].concat())
    };
    // Nobody asked for it.
    let plain = migrate(&[]).exits(0).json();
    let left: Vec<(String, String)> = containers(&plain);
    assert!(left.iter().all(|(_, action)| action == "leave"), "{left:?}");
    let of_profile = |view: &Value| -> Vec<(String, String)> {
        let mut view = view.clone();
        let items = view["items"].as_array_mut().unwrap();
        items.retain(|item| item["profile"] == profile.as_str());
        containers(&view)
    };
    let planned = of_profile(&migrate(&["--containers"]).exits(0).json());
    assert_eq!(planned, [("lamp".to_owned(), "take".to_owned())]);
    assert_eq!(fixture.containers(), [""; 0], "a plan makes nothing");

    // The containers of the default profile may be those of others here.
    migrate(&["--containers", "-y"]).exits(0);
    let vestal = |args: &[&str]| fixture.vestal([&["-p", &profile][..], args].concat());
    let text = "cat /opt/light oil; stat -c %a oil";
    assert_eq!(vestal(&["run", "-t", "lamp", text]).exits(0).text(), "lit\noil\n600\n");
    // It is a copy, and the old one goes on.
    vestal(&["run", "-t", "lamp", "echo out > /opt/light; echo none > oil"]).exits(0);
    assert_eq!(old.exec("cat /opt/light /workspace/oil").text(), "lit\noil\n");
    let again = of_profile(&migrate(&["--containers"]).exits(0).json());
    assert_eq!(again, [("lamp".to_owned(), "present".to_owned())]);
    vestal(&["rm", "-y", "--files", "lamp"]).exits(0);
    // What was removed here does not come back.
    let removed = of_profile(&migrate(&["--containers"]).exits(0).json());
    assert_eq!(removed, [("lamp".to_owned(), "leave".to_owned())]);
    drop((old, others));
}
