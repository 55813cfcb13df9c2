//! A home of its own for each test, and no process left of it afterwards.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use vestal_logs::{LogReader, NextLine};
use vestal_supervisor::{
    OrderOutcome, SlotState, SlotStatus, SupervisorAnswer, SupervisorRequest, ask,
};
use vestal_testkit::processes::{naming, processes_with};
use vestal_testkit::{TEST_TIMEOUT, until};

pub(crate) struct SupervisorFixture {
    root: tempfile::TempDir,
}

impl SupervisorFixture {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("profiles")).unwrap();
        Self { root }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.root().join("run")
    }

    /// Returns the directory of a profile.
    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        self.root().join("profiles").join(name)
    }

    /// Makes a profile whose child behaves in a way.
    pub(crate) fn profile(&self, name: &str, behaviour: &str) {
        std::fs::create_dir(self.dir(name)).unwrap();
        self.write(name, "behaviour", behaviour);
    }

    /// Makes a service that the home has once, whose child behaves in a way.
    pub(crate) fn service(&self, name: &str, behaviour: &str) {
        std::fs::create_dir_all(self.root().join("services").join(name)).unwrap();
        self.write_service(name, "behaviour", behaviour);
    }

    pub(crate) fn write_service(&self, name: &str, file: &str, text: &str) {
        std::fs::write(self.root().join("services").join(name).join(file), text).unwrap();
    }

    /// Returns how many children a service ever had.
    pub(crate) fn service_starts(&self, name: &str) -> usize {
        let path = self.root().join("services").join(name).join("starts");
        std::fs::read_to_string(path).unwrap_or_default().lines().count()
    }

    pub(crate) fn write(&self, name: &str, file: &str, text: &str) {
        std::fs::write(self.dir(name).join(file), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str, file: &str) -> String {
        std::fs::read_to_string(self.dir(name).join(file)).unwrap_or_default()
    }

    /// Returns the pids of all children that a slot ever had.
    pub(crate) fn starts(&self, name: &str) -> Vec<u32> {
        self.read(name, "starts").lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Returns how a supervisor of this home is started.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_supervised"));
        command.arg("supervise").arg(self.root()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a supervisor and waits until it is ready.
    pub(crate) fn supervise(&self) -> Supervised {
        let supervised = Supervised::spawn(self.command());
        assert!(supervised.is_ready(), "it ended at once");
        supervised
    }

    pub(crate) async fn ask(&self, request: SupervisorRequest) -> SupervisorAnswer {
        ask(&self.run_dir(), &request, TEST_TIMEOUT).await.unwrap()
    }

    pub(crate) async fn start(&self, name: &str) -> OrderOutcome {
        one(self.ask(SupervisorRequest::Start { slots: Some(vec![name.to_owned()]) }).await)
    }

    pub(crate) async fn stop(&self, name: &str) -> OrderOutcome {
        one(self.ask(SupervisorRequest::Stop { slots: Some(vec![name.to_owned()]) }).await)
    }

    pub(crate) async fn status(&self, name: &str) -> SlotStatus {
        let answer = self.ask(SupervisorRequest::List { slots: Some(vec![name.to_owned()]) }).await;
        answer.slots.into_iter().next().unwrap_or_else(|| panic!("no slot {name}"))
    }

    pub(crate) async fn until_state(&self, name: &str, state: SlotState) -> SlotStatus {
        let what = format!("{name} is {state:?}");
        vestal_testkit::until_async(&what, || async { self.status(name).await.state == state })
            .await;
        self.status(name).await
    }

    /// Returns the lines of a slot's log without their times.
    pub(crate) fn log(&self, name: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let dir = self.root().join("logs/gateways").join(name);
        let mut reader = LogReader::new(vestal_supervisor::slot_log_files(&dir));
        loop {
            match reader.next_line().unwrap() {
                NextLine::Line(line) => {
                    let text = String::from_utf8_lossy(line);
                    let (time, text) = text.split_once(' ').unwrap();
                    assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
                    lines.push(text.to_owned());
                }
                NextLine::Gap => panic!("a gap"),
                NextLine::End => return lines,
            }
        }
    }

    /// Returns the lines of the boot log without their times.
    pub(crate) fn boot_log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.root().join("logs/container-boot.log")).unwrap();
        text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }

    /// Returns the living children of all slots.
    pub(crate) fn children(&self) -> Vec<u32> {
        processes_with(&format!("child\0{}", self.root().display()))
    }

    pub(crate) async fn until_no_child(&self) {
        until("no child is left", || self.children().is_empty()).await;
    }
}

fn one(answer: SupervisorAnswer) -> OrderOutcome {
    let [outcome] = <[OrderOutcome; 1]>::try_from(answer.outcomes).unwrap();
    outcome
}

impl Drop for SupervisorFixture {
    fn drop(&mut self) {
        // Only after a failure is anything left that names this home.
        for pid in naming(self.root(), &["cmdline", "environ"]) {
            send(pid, Signal::KILL);
        }
    }
}

/// Sends a signal to a process that may be gone.
pub(crate) fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).ok();
}

/// A supervisor that was started. It is killed when the test ends.
pub(crate) struct Supervised {
    child: Child,
    printed: std::sync::mpsc::Receiver<String>,
    stdout: Option<std::thread::JoinHandle<Vec<u8>>>,
}

impl Supervised {
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (stderr, mut stdout) = (child.stderr.take().unwrap(), child.stdout.take().unwrap());
        let (line, printed) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).for_each(|text| {
                line.send(text).ok();
            });
        });
        let stdout = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).unwrap();
            bytes
        });
        Self { child, printed, stdout: Some(stdout) }
    }

    /// Waits until it says that it is ready, or has ended.
    pub(crate) fn is_ready(&self) -> bool {
        self.printed.iter().any(|line| line == "ready")
    }

    /// Waits for its end and returns what it said.
    pub(crate) fn finished(&mut self) -> (ExitStatus, Vec<String>) {
        let status = self.child.wait().unwrap();
        (status, self.printed.iter().collect())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its standard input, which closes when the result is dropped.
    pub(crate) fn input(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end and waits for that.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        send(self.pid(), Signal::TERM);
        self.child.wait().unwrap()
    }

    /// Returns all that it printed, once it has ended.
    pub(crate) fn printed(&mut self) -> Vec<u8> {
        self.stdout.take().unwrap().join().unwrap()
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // After a failure only; a process that was waited for is not killed again.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}
