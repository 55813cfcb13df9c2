//! A program on a real terminal device, with an emulator at the other end.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use pty_process::blocking::Command;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};

use super::Emulator;
use crate::text::Size;

/// A program that runs on a terminal of its own.
#[derive(Debug)]
pub struct Pty {
    child: Child,
    /// The terminal's end of the device; nothing once it is closed.
    device: Option<File>,
    reader: Option<JoinHandle<()>>,
    /// Closing it ends the reader.
    wake: Option<OwnedFd>,
    seen: Arc<Seen>,
    size: Size,
}

#[derive(Debug)]
struct Seen {
    state: Mutex<PtyState>,
    changed: Condvar,
}

#[derive(Debug)]
struct PtyState {
    emulator: Emulator,
    written: Vec<u8>,
    /// Whether the program will write nothing more.
    ended: bool,
}

impl Pty {
    /// Starts a program on a new terminal, as the leader of its session.
    pub fn spawn(command: Command, size: Size) -> io::Result<Self> {
        let (pty, pts) = pty_process::blocking::open().map_err(io::Error::other)?;
        pty.resize(pty_process::Size::new(size.rows, size.columns)).map_err(io::Error::other)?;
        let child = command.spawn(pts).map_err(io::Error::other)?;
        let device = File::from(OwnedFd::from(pty));
        let state = PtyState { emulator: Emulator::new(size), written: Vec::new(), ended: false };
        let seen = Arc::new(Seen { state: Mutex::new(state), changed: Condvar::new() });
        let (woken, wake) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let reader = {
            let device = device.try_clone()?;
            let seen = Arc::clone(&seen);
            thread::spawn(move || read(device, &woken, &seen))
        };
        Ok(Self { child, device: Some(device), reader: Some(reader), wake: Some(wake), seen, size })
    }

    /// Returns the id of the program's process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Types, as a keyboard would send it.
    pub fn type_text(&mut self, text: &str) -> io::Result<()> {
        self.send(text.as_bytes())
    }

    /// Presses a key, given as the bytes that it sends: `"\r"`, `"\x03"`, `"\x1b[A"`.
    pub fn key(&mut self, bytes: &str) -> io::Result<()> {
        self.send(bytes.as_bytes())
    }

    /// Pastes, as a terminal does it for a program that has asked for brackets.
    pub fn paste(&mut self, text: &str) -> io::Result<()> {
        self.send(format!("\x1b[200~{}\x1b[201~", text.replace('\n', "\r")).as_bytes())
    }

    /// Makes the window larger or smaller.
    pub fn resize(&mut self, size: Size) -> io::Result<()> {
        self.size = size;
        self.lock().emulator.resize(size);
        let Some(device) = &self.device else { return Ok(()) };
        let size = rustix::termios::Winsize {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(rustix::termios::tcsetwinsize(device, size)?)
    }

    /// Looks at the terminal.
    pub fn look<T>(&self, look: impl FnOnce(&Emulator) -> T) -> T {
        look(&self.lock().emulator)
    }

    /// Returns the rows that are seen.
    pub fn screen(&self) -> Vec<String> {
        self.look(Emulator::screen)
    }

    /// Returns everything that the program has written, byte for byte.
    pub fn written(&self) -> Vec<u8> {
        self.lock().written.clone()
    }

    /// Waits until the terminal looks as it should.
    ///
    /// # Panics
    ///
    /// With what the terminal shows, when it does not within `timeout`.
    #[track_caller]
    pub fn wait_for(&self, looks_right: impl Fn(&Emulator) -> bool, timeout: Duration) {
        let until = Instant::now() + timeout;
        let mut state = self.lock();
        while !looks_right(&state.emulator) {
            let left = until.saturating_duration_since(Instant::now());
            let all = |state: &PtyState| state.emulator.all().join("\n");
            assert!(
                !left.is_zero(),
                "not shown within {timeout:?}; the terminal shows:\n{}",
                all(&state)
            );
            assert!(
                !state.ended,
                "the program ended and it was not shown; the terminal shows:\n{}",
                all(&state)
            );
            let waited = self.seen.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until a visible row contains a text.
    #[track_caller]
    pub fn wait_for_text(&self, text: &str, timeout: Duration) {
        self.wait_for(|seen| seen.screen().iter().any(|row| row.contains(text)), timeout);
    }

    /// Closes the terminal, as someone does who closes the window.
    pub fn close(&mut self) {
        self.wake = None;
        if let Some(reader) = self.reader.take() {
            // A reader that panicked has nothing more to say.
            reader.join().unwrap_or_default();
        }
        self.device = None;
    }

    /// Sends the program a signal.
    pub fn kill(&self, signal: Signal) -> io::Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(id.ok_or(io::ErrorKind::NotFound)?, signal)?)
    }

    /// Waits until the program has ended and all that it wrote is seen.
    ///
    /// # Panics
    ///
    /// With what the terminal shows, when it does not within `timeout`.
    #[track_caller]
    pub fn wait(&mut self, timeout: Duration) -> io::Result<ExitStatus> {
        let until = Instant::now() + timeout;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            let all = self.look(Emulator::all).join("\n");
            assert!(Instant::now() < until, "it did not end; the terminal shows:\n{all}");
            // There is no waiting for a child with a limit; this is the time it
            // takes to notice.
            thread::sleep(Duration::from_millis(2));
        };
        if self.device.is_some() {
            let mut state = self.lock();
            // A child of the program may hold the terminal open for longer.
            while !state.ended && Instant::now() < until {
                let left = until.saturating_duration_since(Instant::now());
                let waited = self.seen.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        Ok(status)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let device = self.device.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        device.write_all(bytes)
    }

    fn lock(&self) -> MutexGuard<'_, PtyState> {
        self.seen.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        self.close();
        // It may have ended; then there is nothing to end.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(|_| ()).unwrap_or_default();
    }
}

/// Shows what the program writes, until it writes no more or is not looked at.
fn read(mut device: File, woken: &OwnedFd, seen: &Seen) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let mut ready = [PollFd::new(&device, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        if poll(&mut ready, None).is_err_and(|error| error != rustix::io::Errno::INTR) {
            break;
        }
        if !ready[1].revents().is_empty() {
            break;
        }
        let count = match device.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The last one who had the terminal open has closed it.
            Err(_) => break,
        };
        let mut state = seen.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.written.extend_from_slice(&bytes[..count]);
        state.emulator.feed(&bytes[..count]);
        let answers = state.emulator.answers();
        drop(state);
        seen.changed.notify_all();
        if device.write_all(&answers).is_err() {
            break;
        }
    }
    seen.state.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
    seen.changed.notify_all();
}
