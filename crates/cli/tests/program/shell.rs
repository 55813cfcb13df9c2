//! `vestal shell` and `vestal run --pty`, on real terminals.

use std::io::{Read as _, Write as _};
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use pty_process::Size;
use pty_process::blocking::{Command, Pty, open};
use vestal_testkit::programs::wait;

use crate::support::{ProgramFixture, TEST_TIMEOUT, is_alive};

/// A person at a terminal.
pub(crate) struct ShellTerminal {
    terminal: Arc<Pty>,
    child: Child,
    seen: String,
    coming: Receiver<Vec<u8>>,
}

impl ShellTerminal {
    pub(crate) fn start(fixture: &ProgramFixture, args: &[&str]) -> Self {
        Self::start_with(fixture, args, &[])
    }

    pub(crate) fn start_with(
        fixture: &ProgramFixture,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        // Whatever the machine's own prompt is.
        std::fs::write(fixture.user().join(".bashrc"), "PS1='prompt> '\n").unwrap();
        let (terminal, other_side) = open().unwrap();
        terminal.resize(Size::new(24, 80)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_vestal"))
            .args(args)
            .current_dir(fixture.work())
            .env_clear()
            .envs(fixture.environment());
        for (name, value) in variables {
            command = command.env(name, value);
        }
        let child = command.spawn(other_side).unwrap();
        let terminal = Arc::new(terminal);
        let (sender, coming) = channel();
        let from = Arc::clone(&terminal);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The terminal ends with an error when nobody has it open any more.
            while let Ok(count @ 1..) = (&*from).read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { terminal, child, seen: String::new(), coming }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        (&*self.terminal).write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until something is on the screen and forgets what was before it.
    #[track_caller]
    pub(crate) fn sees(&mut self, text: &str) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !self.seen.contains(text) {
            match self.coming.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("{text:?} is not in {:?}", self.seen)
                }
            }
        }
        let end = self.seen.find(text).unwrap() + text.len();
        self.seen.drain(..end);
    }

    /// Waits for the program's end and returns its exit code and the rest of
    /// what was on the screen.
    pub(crate) fn leaves(mut self) -> (i32, String) {
        let code = wait(&mut self.child).code().unwrap_or(-1);
        while let Ok(bytes) = self.coming.recv_timeout(std::time::Duration::from_millis(200)) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        (code, std::mem::take(&mut self.seen))
    }

    fn resize(&self, rows: u16, cols: u16) {
        self.terminal.resize(Size::new(rows, cols)).unwrap();
    }
}

impl Drop for ShellTerminal {
    fn drop(&mut self) {
        // Only a test that fails leaves it running.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn a_shell_is_typed_into_resized_left_found_again_and_ended() {
    let fixture = ProgramFixture::new();
    fixture.run("cd /usr; export A=session").exits(0);
    let mut person = ShellTerminal::start(&fixture, &["shell"]);
    person.types("echo [$A] $PWD; stty size; tty >/dev/null && echo is-''terminal\r");
    person.sees("[session] /usr\r\n24 80\r\nis-terminal");
    person.resize(40, 100);
    // The size is passed on by a signal; the shell sees it when it has come.
    person.types("until [ \"$(stty size)\" = '40 100' ]; do sleep 0.05; done; echo re''sized\r");
    person.sees("resized");
    person.types("here=kept; echo pid:$$:\r");
    person.sees("\rpid:");
    person.sees(":");
    person.types("echo before-''leaving\r");
    person.sees("before-leaving");
    person.types("\x1c\x1c");
    person.sees("vestal shell -t default --attach ");
    let (code, rest) = person.leaves();
    assert_eq!(code, 0);
    let job = rest.split_whitespace().next().unwrap().trim_end_matches("\x1b[0m").to_owned();
    assert_eq!(fixture.job(&job)["state"], "running");

    let mut person = ShellTerminal::start(&fixture, &["shell", "--attach", &job]);
    person.sees("before-leaving");
    person.types("echo [$here]; stty size\r");
    person.sees("[kept]\r\n24 80");
    person.types("exit 5\r");
    assert_eq!(person.leaves().0, 5);
    fixture.vestal(["wait", &job]).exits(5);
    let mut person = ShellTerminal::start(&fixture, &["shell", "--attach", &job]);
    person.sees("has ended");
    assert_eq!(person.leaves().0, 125);
    assert_eq!(fixture.run("echo [$here]").exits(0).text(), "[]\n", "a shell's state is its own");
}

#[test]
fn keys_go_to_the_sandbox_and_the_terminal_is_as_it_was_afterwards() {
    let fixture = ProgramFixture::new();
    let before = settings_of_a_terminal(&fixture, &["ps"]);
    let mut person = ShellTerminal::start(&fixture, &["shell"]);
    // Printed by the program that gets the key, so that it is there when the key comes.
    let waits = "sh -c 'echo re\"\"ady; exec cat'\r";
    person.types(waits);
    person.sees("ready");
    person.types("\x03");
    person.sees("prompt> ");
    person.types("echo inter''rupted:$?\r");
    person.sees("interrupted:130");
    person.types(waits);
    person.sees("ready");
    person.types("\x1a");
    person.sees("Stopped");
    person.sees("prompt> ");
    person.types("exit 3\r");
    person.sees("There are stopped jobs.");
    person.sees("prompt> ");
    person.types("exit 3\r");
    let terminal = Arc::clone(&person.terminal);
    assert_eq!(person.leaves().0, 3);
    assert_eq!(rustix::termios::tcgetattr(&*terminal).unwrap().local_modes, before);
}

fn settings_of_a_terminal(fixture: &ProgramFixture, args: &[&str]) -> rustix::termios::LocalModes {
    let person = ShellTerminal::start(fixture, args);
    let terminal = Arc::clone(&person.terminal);
    person.leaves();
    rustix::termios::tcgetattr(&*terminal).unwrap().local_modes
}

#[test]
fn closing_the_terminal_ends_the_shell() {
    let fixture = ProgramFixture::new();
    let mut person = ShellTerminal::start(&fixture, &["shell"]);
    person.types("echo pid-''is $$ .\r");
    person.sees("pid-is ");
    person.sees(" .");
    let jobs = fixture.vestal(["jobs", "--json"]).exits(0).json();
    let (id, pid) = (jobs[0]["id"].as_str().unwrap(), jobs[0]["pid"].to_string());
    assert!(is_alive(&pid));
    let signalled = rustix::process::Pid::from_raw(person.child.id().cast_signed()).unwrap();
    rustix::process::kill_process(signalled, rustix::process::Signal::HUP).unwrap();
    assert_eq!(person.leaves().0, 129);
    assert!(!is_alive(&pid));
    assert_eq!(fixture.job(id)["cause"], "killed");
}

#[test]
fn a_command_runs_on_a_terminal_when_asked() {
    let fixture = ProgramFixture::new();
    let mut person = ShellTerminal::start(
        &fixture,
        &["run", "--pty", "stty size; read -r x; echo got:$x; exit 6"],
    );
    person.sees("24 80");
    person.types("typed\r");
    person.sees("got:typed");
    assert_eq!(person.leaves().0, 6);
    let piped = fixture.vestal(["run", "--pty", "tty >/dev/null && echo terminal"]).exits(0);
    assert_eq!(piped.text(), "terminal\r\n");
}

#[test]
fn without_a_terminal_there_is_no_shell() {
    let fixture = ProgramFixture::new();
    let refused = fixture.vestal(["shell"]).exits(2);
    assert!(refused.stderr.contains("needs a terminal"), "{refused:?}");
    assert_eq!(fixture.tasks(), [""; 0]);
}

#[test]
fn removal_asks_on_a_terminal() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let mut person = ShellTerminal::start(&fixture, &["rm", "default"]);
    person.sees("the running sandbox on local");
    person.sees("[y/N]");
    person.types("n\r");
    assert_eq!(person.leaves().0, 1);
    assert_eq!(fixture.tasks(), ["default"]);
    let mut person = ShellTerminal::start(&fixture, &["rm", "default"]);
    person.sees("[y/N]");
    person.types("y\r");
    assert_eq!(person.leaves().0, 0);
    assert_eq!(fixture.tasks(), [""; 0]);
}

#[test]
fn a_terminal_shows_colour_unless_it_is_refused() {
    let fixture = ProgramFixture::new();
    fixture.run("true").exits(0);
    let (_, coloured) = ShellTerminal::start(&fixture, &["ps"]).leaves();
    assert!(coloured.contains("\x1b[32mrunning"), "{coloured:?}");
    let (_, plain) = ShellTerminal::start_with(&fixture, &["ps"], &[("NO_COLOR", "1")]).leaves();
    assert!(plain.contains("running") && !plain.contains('\x1b'), "{plain:?}");
}
