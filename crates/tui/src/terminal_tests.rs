use std::fs::File;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OutputModes, Termios, tcgetattr};

use super::*;
use crate::emulator::Emulator;
use crate::key::{KeyCode, KeyPress, TerminalInput};

/// The terminal is one for the whole process, so one test at a time has it.
static ONE: Mutex<()> = Mutex::new(());

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A terminal device, and the end of it that a person sits at.
struct Device {
    person: File,
    program: OwnedFd,
    _alone: MutexGuard<'static, ()>,
}

impl Device {
    fn open() -> Self {
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let person =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap();
        let flags =
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let program = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
        Self { person: File::from(person), program, _alone: alone }
    }

    fn enter(&self) -> (Terminal, Inputs) {
        let both = (self.program.try_clone().unwrap(), self.program.try_clone().unwrap());
        Terminal::enter_on(both.0, both.1).unwrap()
    }

    fn type_text(&mut self, text: &str) {
        self.person.write_all(text.as_bytes()).unwrap();
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.program).unwrap()
    }

    /// Returns what a terminal looks like after what was written up to now.
    fn seen(&mut self) -> Emulator {
        // A mark tells when everything has arrived.
        write_all(&self.program, b"\x1b]0;mark\x07").unwrap();
        let mut emulator = Emulator::new(Size { columns: 80, rows: 24 });
        let mut bytes = [0; 4096];
        while emulator.title().is_none() {
            let count = read(&self.person, &mut bytes);
            emulator.feed(&bytes[..count]);
        }
        emulator
    }
}

/// Reads what is there, or soon will be.
fn read(device: impl AsFd, bytes: &mut [u8]) -> usize {
    let timeout = rustix::event::Timespec::try_from(TEST_TIMEOUT).unwrap();
    let mut ready = [PollFd::new(&device, PollFlags::IN)];
    assert_eq!(poll(&mut ready, Some(&timeout)), Ok(1), "nothing came");
    rustix::io::read(&device, bytes).unwrap()
}

/// What of the modes is to be as it was.
fn reported(modes: &Termios) -> String {
    format!("{modes:?}")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(TEST_TIMEOUT, future).await.unwrap() })
}

async fn typed(inputs: &mut Inputs, count: usize) -> String {
    let mut text = String::new();
    for _ in 0..count {
        match inputs.next().await {
            TerminalInput::Key(KeyPress { code: KeyCode::Char(c), .. }) => text.push(c),
            other => panic!("{other:?} after {text:?}"),
        }
    }
    text
}

#[test]
fn the_terminal_is_ours_while_we_talk_and_as_before_afterwards() {
    block_on(async {
        let mut device = Device::open();
        let before = device.modes();
        let (terminal, mut inputs) = device.enter();
        let ours = device.modes();
        assert!(
            !ours.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
        );
        assert!(ours.output_modes.contains(OutputModes::OPOST | OutputModes::ONLCR));
        device.type_text("\x03");
        assert_eq!(inputs.next().await, TerminalInput::Key(KeyPress::control('c')));
        assert_eq!(device.seen().modes(), ["bracketed paste", "focus", "keyboard"]);
        drop(terminal);
        assert_eq!(reported(&device.modes()), reported(&before));
        // Nothing is read any more: what is typed is for others.
        device.type_text("ls\n");
        let mut line = [0; 16];
        assert_eq!(read(&device.program, &mut line), 3);
        assert_eq!(inputs.next().await, TerminalInput::Closed);
        assert_eq!(inputs.next().await, TerminalInput::Closed);
    });
}

#[test]
fn every_mode_that_is_turned_on_is_turned_off() {
    block_on(async {
        let mut device = Device::open();
        let (mut terminal, _inputs) = device.enter();
        terminal.suspend().unwrap();
        terminal.resume().unwrap();
        write_all(&device.program, b"\x1b[?2026h\x1b[?25lhalf a frame").unwrap();
        drop(terminal);
        let seen = device.seen();
        assert_eq!(seen.modes(), Vec::<&str>::new());
        assert_eq!(seen.all(), Vec::<String>::new(), "nothing is left of the frame");
    });
}

#[test]
fn a_panic_hook_can_put_the_terminal_back_from_anywhere() {
    block_on(async {
        let device = Device::open();
        let before = device.modes();
        let (terminal, _inputs) = device.enter();
        std::thread::spawn(|| {
            restore();
            restore();
        })
        .join()
        .unwrap();
        assert_eq!(reported(&device.modes()), reported(&before));
        drop(terminal);
        assert_eq!(reported(&device.modes()), reported(&before));
        restore();
        // And it can be taken again.
        let (_terminal, _inputs) = device.enter();
        assert_ne!(reported(&device.modes()), reported(&before));
    });
}

#[test]
fn there_is_one_terminal_and_it_is_one() {
    block_on(async {
        let device = Device::open();
        let before = device.modes();
        let (terminal, _inputs) = device.enter();
        let ours = reported(&device.modes());
        let both = (device.program.try_clone().unwrap(), device.program.try_clone().unwrap());
        Terminal::enter_on(both.0, both.1).unwrap_err();
        assert_eq!(reported(&device.modes()), ours);
        drop(terminal);
        assert_eq!(reported(&device.modes()), reported(&before));
        let (read, write) = rustix::pipe::pipe().unwrap();
        Terminal::enter_on(read, write).unwrap_err();
        let (_read, write) = rustix::pipe::pipe().unwrap();
        Terminal::enter_on(device.program.try_clone().unwrap(), write).unwrap_err();
        assert_eq!(reported(&device.modes()), reported(&before));
        device.enter();
    });
}

#[test]
fn while_it_is_lent_out_what_is_typed_is_for_others() {
    block_on(async {
        let mut device = Device::open();
        let before = device.modes();
        let (mut terminal, mut inputs) = device.enter();
        device.type_text("ab");
        assert_eq!(typed(&mut inputs, 2).await, "ab");
        for round in 0..20 {
            terminal.suspend().unwrap();
            assert_eq!(reported(&device.modes()), reported(&before));
            device.type_text("for others\n");
            // Time to take it, for a thread that should not.
            std::thread::sleep(Duration::from_millis(5));
            let mut line = [0; 64];
            let count = read(&device.program, &mut line);
            assert_eq!(&line[..count], b"for others\n", "round {round}");
            terminal.resume().unwrap();
            assert_ne!(reported(&device.modes()), reported(&before));
            device.type_text("us");
            assert_eq!(typed(&mut inputs, 2).await, "us");
        }
    });
}

#[test]
fn a_closed_terminal_is_reported() {
    block_on(async {
        let mut device = Device::open();
        let (terminal, mut inputs) = device.enter();
        device.type_text("x");
        assert_eq!(typed(&mut inputs, 1).await, "x");
        drop(device.person);
        assert_eq!(inputs.next().await, TerminalInput::Closed);
        assert_eq!(inputs.next().await, TerminalInput::Closed);
        drop(terminal);
    });
}

#[test]
fn a_lone_escape_is_reported_though_nothing_follows() {
    block_on(async {
        let mut device = Device::open();
        let (_terminal, mut inputs) = device.enter();
        device.type_text("\x1b");
        assert_eq!(inputs.next().await, TerminalInput::Key(KeyPress::plain(KeyCode::Escape)));
        device.type_text("\x1b[");
        device.type_text("A");
        assert_eq!(inputs.next().await, TerminalInput::Key(KeyPress::plain(KeyCode::Up)));
    });
}

#[test]
fn ten_thousand_pasted_lines_come_as_one() {
    block_on(async {
        let device = Device::open();
        let (_terminal, mut inputs) = device.enter();
        let text = "a line of what was copied somewhere else\n".repeat(10_000);
        let sent = format!("\x1b[200~{}\x1b[201~x", text.replace('\n', "\r"));
        let mut person = device.person.try_clone().unwrap();
        let pasting = std::thread::spawn(move || person.write_all(sent.as_bytes()).unwrap());
        assert_eq!(inputs.next().await, TerminalInput::Paste(text));
        assert_eq!(typed(&mut inputs, 1).await, "x");
        pasting.join().unwrap();
    });
}

#[test]
fn waiting_for_input_may_be_given_up_without_losing_any() {
    block_on(async {
        let mut device = Device::open();
        let (_terminal, mut inputs) = device.enter();
        for _ in 0..100 {
            device.type_text("k");
            // Given up at once, and then waited for.
            let given_up = tokio::time::timeout(Duration::ZERO, inputs.next()).await;
            let input = match given_up {
                Ok(input) => input,
                Err(_) => inputs.next().await,
            };
            assert_eq!(input, TerminalInput::Key(KeyPress::plain(KeyCode::Char('k'))));
        }
    });
}
