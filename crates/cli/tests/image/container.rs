//! Containers of the image, removed with their volumes when a test ends.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use vestal_testkit::wait_for;

/// What a command printed and how it ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    /// Returns what it printed; it must have succeeded.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }
}

/// Returns a variable that `scripts/test image` sets.
#[expect(clippy::disallowed_methods, reason = "tests are told by their environment")]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run scripts/test image"))
}

fn docker(arguments: &[&str]) -> Outcome {
    let mut command = Command::new("docker");
    command.args(arguments).env("DOCKER_HOST", variable("VESTAL_TEST_DOCKER_HOST"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

/// Returns a name that nothing else on the engine has.
fn name(kind: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("vestal-image-{kind}-{}-{number}", std::process::id())
}

/// A data directory.
pub(crate) struct Volume(String);

impl Volume {
    pub(crate) fn new() -> Self {
        let name = name("data");
        docker(&["volume", "create", &name]).ok();
        Self(name)
    }

    fn mount(&self) -> String {
        format!("{}:/opt/data", self.0)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        docker(&["volume", "rm", "--force", &self.0]);
    }
}

/// Runs a container to its end.
pub(crate) fn run(volume: &Volume, options: &[&str], arguments: &[&str]) -> Outcome {
    let image = variable("VESTAL_TEST_IMAGE");
    let mount = volume.mount();
    let mut all = vec!["run", "--rm", "--volume", &mount];
    all.extend_from_slice(options);
    all.push(&image);
    all.extend_from_slice(arguments);
    docker(&all)
}

/// A container that runs in the background.
pub(crate) struct Container(String);

impl Container {
    pub(crate) fn start(volume: &Volume, options: &[&str], arguments: &[&str]) -> Self {
        let (image, mount, name) =
            (variable("VESTAL_TEST_IMAGE"), volume.mount(), name("container"));
        let mut all = vec!["run", "--detach", "--name", &name, "--volume", &mount];
        all.extend_from_slice(options);
        all.push(&image);
        all.extend_from_slice(arguments);
        docker(&all).ok();
        Self(name)
    }

    /// Runs a command in it, as root, which is what `docker exec` does.
    pub(crate) fn exec(&self, command: &[&str]) -> Outcome {
        self.exec_with(&[], command)
    }

    pub(crate) fn exec_with(&self, options: &[&str], command: &[&str]) -> Outcome {
        docker(&[&["exec"], options, &[&self.0], command].concat())
    }

    pub(crate) fn vestal(&self, arguments: &[&str]) -> Outcome {
        self.exec(&[&["vestal"], arguments].concat())
    }

    pub(crate) fn until_supervised(&self) {
        wait_for("the supervisor answers", || {
            self.assert_running();
            (self.exec(&["/opt/vestal/bin/health"]).code == 0).then_some(())
        });
    }

    pub(crate) fn until_running(&self, profile: &str) {
        wait_for(&format!("the gateway of {profile} runs"), || {
            self.assert_running();
            (self.vestal(&["-p", profile, "gateway", "status"]).code == 0).then_some(())
        });
    }

    fn assert_running(&self) {
        assert!(self.is_running(), "the container has ended: {}", self.logs());
    }

    pub(crate) fn is_running(&self) -> bool {
        docker(&["inspect", "--format", "{{.State.Running}}", &self.0]).ok().trim() == "true"
    }

    pub(crate) fn logs(&self) -> String {
        let outcome = docker(&["logs", &self.0]);
        outcome.stdout + &outcome.stderr
    }

    pub(crate) fn kill(&self) {
        docker(&["kill", "--signal", "KILL", &self.0]).ok();
        docker(&["wait", &self.0]).ok();
    }

    pub(crate) fn start_again(&self) {
        docker(&["start", &self.0]).ok();
    }

    pub(crate) fn stop(&self) {
        docker(&["stop", "--time", "60", &self.0]).ok();
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        docker(&["rm", "--force", "--volumes", &self.0]);
    }
}
