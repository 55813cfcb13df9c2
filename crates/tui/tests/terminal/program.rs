//! The program that the tests look at: it says what is typed. It is this test program
//! itself, told by its environment to be that.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use vestal_tui::emulator::Command;
use vestal_tui::terminal::{self, Terminal, TerminalOutput};
use vestal_tui::{Colour, KeyCode, KeyPress, Line, LiveArea, Screen, TerminalInput};

const TOLD_BY: &str = "VESTAL_TUI_TEST_PROGRAM";
const NAME: &str = "program::says_what_is_typed";

/// Returns the command that starts it.
pub(crate) fn command() -> Command {
    let this = std::env::current_exe().unwrap();
    environment(Command::new(this).args(["--exact", NAME, "--nocapture"]))
}

/// Returns it as words for a shell.
pub(crate) fn line() -> String {
    format!("{} --exact {NAME} --nocapture", std::env::current_exe().unwrap().display())
}

/// Returns a command with the environment in which the program is what it is.
pub(crate) fn environment(command: Command) -> Command {
    command.env(TOLD_BY, "1").env("RUST_BACKTRACE", "0").env("TERM", "xterm-256color")
}

/// Does nothing unless it is the program: then it does not return.
#[test]
#[expect(clippy::disallowed_methods, reason = "no setting: what the tests told it to be")]
fn says_what_is_typed() {
    if std::env::var_os(TOLD_BY).is_none() {
        return;
    }
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        terminal::restore();
        usual(panic);
    }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let code = runtime.block_on(run());
    std::process::exit(code);
}

async fn run() -> i32 {
    // What a closed terminal sends would end it before it has seen for itself.
    let _hangup = signal(SignalKind::hangup()).unwrap();
    let (mut terminal, mut inputs) = Terminal::enter().unwrap();
    let mut screen = Screen::new(TerminalOutput, Terminal::size().unwrap(), Colour::On);
    let mut typed = String::new();
    loop {
        if screen.draw(&view(&typed, &screen)).is_err() {
            // The terminal is gone; that is reported as an input.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        match inputs.next().await {
            TerminalInput::Key(KeyPress { code: KeyCode::Enter, .. }) => {
                let line = std::mem::take(&mut typed);
                match &*line {
                    "panic" => panic!("said so"),
                    "exit" => {
                        screen.clear().unwrap();
                        terminal::restore();
                        return 7;
                    }
                    "lend" => {
                        screen.clear().unwrap();
                        terminal.suspend().unwrap();
                        let ask = "printf 'your name? '; read name; echo hello $name";
                        std::process::Command::new("sh").args(["-c", ask]).status().unwrap();
                        terminal.resume().unwrap();
                    }
                    line => screen.print(Line::plain(format!("said {line}"))),
                }
            }
            TerminalInput::Key(key) if key == KeyPress::control('u') => typed.clear(),
            TerminalInput::Key(key) if key == KeyPress::control('d') => {
                screen.clear().unwrap();
                return 0;
            }
            TerminalInput::Key(key) if key == KeyPress::control('z') => {
                screen.clear().unwrap();
                terminal.stop().unwrap();
            }
            TerminalInput::Key(KeyPress { code: KeyCode::Char(c), .. }) => typed.push(c),
            TerminalInput::Paste(text) => {
                screen.print(Line::plain(format!("said pasted {} lines", text.lines().count())));
            }
            TerminalInput::Resized(size) => screen.resized(size),
            TerminalInput::Closed => return 3,
            TerminalInput::Key(_) | TerminalInput::Focused(_) | TerminalInput::Clipboard(_) => {}
        }
    }
}

fn view<W: std::io::Write>(typed: &str, screen: &Screen<W>) -> LiveArea {
    let size = screen.size();
    let typed = Line::plain(format!("> {typed}"));
    let cursor = Some((0, typed.width()));
    let status = Line::plain(format!("status {}x{}", size.columns, size.rows));
    LiveArea { lines: vec![typed, status], cursor }
}
