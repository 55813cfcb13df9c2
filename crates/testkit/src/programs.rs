//! Programs that a test runs as other processes.

use std::io::{BufRead as _, BufReader, Lines, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde_json::Value;

use crate::wait::TEST_TIMEOUT;

/// What a program printed and how it ended.
#[derive(Debug)]
pub struct ProgramOutcome {
    /// The exit code; -1 after a signal.
    pub code: i32,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it printed as errors.
    pub stderr: String,
}

impl ProgramOutcome {
    /// Returns what the program printed as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns what the program printed as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the outcome if the exit code is the expected one.
    #[allow(clippy::return_self_not_must_use, reason = "often the code is all a test asks for")]
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// Runs a program to its end.
#[track_caller]
pub fn run(command: &mut Command) -> ProgramOutcome {
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Waits for the end of a program and returns what it printed to its pipes.
#[track_caller]
pub fn finish(mut child: Child) -> ProgramOutcome {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let stdout = std::thread::spawn(move || read_all(stdout));
    let stderr = std::thread::spawn(move || read_all(stderr));
    let status = wait(&mut child);
    ProgramOutcome {
        code: status.code().unwrap_or(-1),
        stdout: stdout.join().unwrap(),
        stderr: String::from_utf8_lossy(&stderr.join().unwrap()).into_owned(),
    }
}

/// Waits for the end of a program. One that takes too long is killed and fails the test.
#[track_caller]
pub fn wait(child: &mut Child) -> ExitStatus {
    if let Some(status) = child.try_wait().unwrap() {
        return status;
    }
    // The kernel reports the end through the handle, in the moment it happens.
    let handle = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
    let mut ends = [PollFd::new(&handle, PollFlags::IN)];
    let timeout = Timespec::try_from(TEST_TIMEOUT).unwrap();
    let ended =
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut ends, Some(&timeout))).unwrap();
    if ended == 0 {
        child.kill().unwrap();
        child.wait().unwrap();
        panic!("the program does not end");
    }
    child.wait().unwrap()
}

/// A program that runs, and is killed when it is dropped.
#[derive(Debug)]
pub struct RunningProgram {
    /// The process.
    pub child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Option<BufReader<ChildStderr>>,
}

impl RunningProgram {
    /// Starts a program. Its output is a pipe; its errors go where the command says.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().map(BufReader::new);
        let stderr = child.stderr.take().map(BufReader::new);
        Self { child, stdout, stderr }
    }

    /// Waits for the next line of output; it is empty after the end.
    pub fn line(&mut self) -> String {
        line(self.stdout.as_mut().unwrap())
    }

    /// Waits for the next line of errors.
    pub fn error_line(&mut self) -> String {
        line(self.stderr.as_mut().unwrap())
    }

    /// Reads and forgets all further output, so that the program never waits for a reader.
    pub fn discard_output(&mut self) {
        let mut stdout = self.stdout.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()).ok());
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills the program and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// Waits for the end and returns the exit code, -1 after a signal, and the errors it printed.
    #[track_caller]
    pub fn end(mut self) -> (i32, String) {
        let status = self.wait();
        let stderr = read_all(self.stderr.take());
        (status.code().unwrap_or(-1), String::from_utf8_lossy(&stderr).into_owned())
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // Only a test that fails leaves it running.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn line(from: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn read_all(from: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        from.read_to_end(&mut bytes).unwrap();
    }
    bytes
}

/// Returns the lines that a child prints; its output must be a pipe.
pub fn lines(child: &mut Child) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(child.stdout.take().unwrap()).lines()
}

/// Reads `count` lines of a child, kills it, and returns all lines it printed until then.
pub fn kill_after(mut child: Child, count: usize) -> Vec<String> {
    let mut output = lines(&mut child);
    let mut printed: Vec<String> = output.by_ref().take(count).map(Result::unwrap).collect();
    child.kill().unwrap();
    // Lines printed before the kill took effect count as well.
    printed.extend(output.map(Result::unwrap));
    child.wait().unwrap();
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]).stdin(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    #[test]
    fn a_program_is_run_to_its_end() {
        let outcome = run(&mut shell("echo '[1]'; echo no >&2; exit 3")).exits(3);
        assert_eq!((outcome.json(), outcome.stderr.as_str()), (serde_json::json!([1]), "no\n"));
        assert_eq!(run(&mut shell("kill -9 $$")).code, -1);
    }

    #[test]
    fn a_running_program_is_read_line_by_line_and_dies_with_its_test() {
        let mut running = RunningProgram::start(shell("echo one; echo two >&2; read x; exit 4"));
        assert_eq!((running.line(), running.error_line()), ("one".to_owned(), "two".to_owned()));
        running.signal(Signal::TERM);
        assert_eq!(running.end(), (-1, String::new()));

        let running = RunningProgram::start(shell("exec sleep 1000"));
        let pid = running.pid();
        drop(running);
        assert_eq!(crate::processes::state_of(pid), None);
    }
}
