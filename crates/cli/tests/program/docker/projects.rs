//! The directory that `vestal` is started in, as a sandbox's workspace.

use std::fs;
use std::path::PathBuf;

use crate::support::{ProgramFixture, ProgramOutcome, finish};

/// Two projects and a way to be in one of them.
struct Projects(ProgramFixture);

impl Projects {
    fn new() -> Self {
        let fixture = ProgramFixture::docker();
        for name in ["a", "b"] {
            fs::create_dir(fixture.work().join(name)).unwrap();
            fs::write(fixture.work().join(name).join("file"), name).unwrap();
        }
        Self(fixture)
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.0.work().join(name)
    }

    fn task(&self, name: &str) -> String {
        format!("default@{}", self.dir(name).display())
    }

    fn vestal(&self, name: &str, args: &[&str]) -> ProgramOutcome {
        finish(self.0.command(args).current_dir(self.dir(name)).spawn().unwrap())
    }
}

#[test]
fn each_directory_has_a_sandbox_of_its_own_and_keeps_its_files() {
    let projects = Projects::new();
    for name in ["a", "b"] {
        let run = ["run", "--mount-cwd", "pwd; cat file; echo new > made"];
        let outcome = projects.vestal(name, &run).exits(0);
        assert_eq!(outcome.text(), format!("/workspace\n{name}"));
        assert!(outcome.stderr.contains(&projects.task(name)), "{outcome:?}");
        assert_eq!(fs::read_to_string(projects.dir(name).join("made")).unwrap(), "new\n");
    }
    let mut tasks = projects.0.tasks();
    tasks.sort();
    assert_eq!(tasks, [projects.task("a"), projects.task("b")]);
    let copied = projects.0.vestal(["cp", &format!("{}:file", projects.task("a")), "-"]).exits(0);
    assert_eq!(copied.text(), "a");
    let copied = projects.vestal("b", &["cp", "--mount-cwd", ":file", "-"]).exits(0);
    assert_eq!(copied.text(), "b");
    let asked = projects.0.vestal(["rm", "--files", &projects.task("a")]).exits(2);
    let stays = format!("{}, its /workspace, is yours and stays", projects.dir("a").display());
    assert!(asked.stderr.contains(&stays), "{asked:?}");
    projects.0.vestal(["rm", "-y", "--files", &projects.task("a")]).exits(0);
    assert_eq!(fs::read_to_string(projects.dir("a").join("file")).unwrap(), "a");
}

#[test]
fn where_directories_are_mounted_every_verb_means_that_of_its_own() {
    let projects = Projects::new();
    projects.0.run("true").exits(0);
    let set = "terminal.docker_mount_cwd_to_workspace";
    projects.0.vestal(["config", "set", set, "true"]).exits(0);
    for name in ["a", "b"] {
        assert_eq!(projects.vestal(name, &["run", "cat file"]).exits(0).text(), name);
    }
    let stopped = projects.vestal("a", &["stop"]).exits(0);
    assert_eq!(stopped.text(), format!("stopped {}\n", projects.task("a")));
    let state = |name: &str| {
        projects.vestal(name, &["inspect", "--json"]).exits(0).json()[0]["state"].clone()
    };
    assert_eq!((state("a"), state("b")), ("stopped".into(), "running".into()));
    let jobs = projects.vestal("b", &["jobs", "-t", "default", "--all", "--json"]).exits(0).json();
    assert_eq!(jobs[0]["task"], projects.task("b"));
    assert_eq!(projects.vestal("b", &["cp", ":file", "-"]).exits(0).text(), "b");
    projects.vestal("b", &["rm", "-y", "default"]).exits(0);
    let left: Vec<String> = projects
        .0
        .vestal(["ps", "--json"])
        .exits(0)
        .json()
        .as_array()
        .unwrap()
        .iter()
        .filter(|sandbox| sandbox["state"] != "absent")
        .map(|sandbox| sandbox["task"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(left, ["default".to_owned(), projects.task("a")]);
    // What nothing is mounted in is still found by its name, where there is no other.
    assert_eq!(projects.0.vestal(["stop", "default"]).exits(0).text(), "stopped default\n");
}
