//! A program on a real terminal device: what a person sees of it, and how it leaves
//! the terminal.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod program;

use std::io;
use std::time::Duration;

use rustix::process::Signal;
use vestal_tui::Size;
use vestal_tui::emulator::{Command, Emulator, Pty};

/// Long enough for a machine that has much else to do.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

const SIZE: Size = Size { columns: 60, rows: 12 };

/// Starts the program on a terminal of its own.
fn start() -> Pty {
    let pty = Pty::spawn(program::command(), SIZE).unwrap();
    pty.wait_for_text("status", TEST_TIMEOUT);
    pty
}

/// Starts a shell that runs the program as `$PROGRAM` in the given lines.
fn start_in_shell(lines: &str) -> Pty {
    let shell = Command::new("sh").args(["-c", lines]).env("PROGRAM", program::line());
    let pty = Pty::spawn(program::environment(shell), SIZE).unwrap();
    pty.wait_for_text("status", TEST_TIMEOUT);
    pty
}

/// Returns the rows that begin with a word, without it.
fn reported(pty: &Pty, word: &str) -> Vec<String> {
    let all = pty.look(Emulator::copied);
    all.iter().filter_map(|row| row.strip_prefix(word)).map(|row| row.trim().to_owned()).collect()
}

#[test]
fn what_is_typed_is_shown_and_printed_lines_stay() -> io::Result<()> {
    let mut pty = start();
    for line in ["one", "zwei 日本", "🦀"] {
        pty.type_text(line)?;
        pty.wait_for_text(&format!("> {line}"), TEST_TIMEOUT);
        pty.key("\r")?;
        pty.wait_for_text(&format!("said {line}"), TEST_TIMEOUT);
    }
    assert_eq!(reported(&pty, "said"), ["one", "zwei 日本", "🦀"]);
    assert_eq!(reported(&pty, "status"), ["60x12"]);
    pty.key("\x04")?;
    assert!(pty.wait(TEST_TIMEOUT)?.success());
    assert_eq!(pty.look(Emulator::modes), Vec::<&str>::new());
    assert_eq!(reported(&pty, "status"), Vec::<String>::new());
    Ok(())
}

#[test]
fn another_size_is_heard_and_everything_drawn_for_it() -> io::Result<()> {
    let mut pty = start();
    pty.type_text("words that are on the terminal while its window is dragged")?;
    pty.wait_for_text("dragged", TEST_TIMEOUT);
    for (columns, rows) in [(40, 12), (100, 30), (30, 5)] {
        pty.resize(Size { columns, rows })?;
        pty.wait_for_text(&format!("status {columns}x{rows}"), TEST_TIMEOUT);
    }
    assert_eq!(reported(&pty, "status"), ["30x5"]);
    Ok(())
}

#[test]
fn ten_thousand_pasted_lines_are_one_paste() -> io::Result<()> {
    let mut pty = start();
    pty.paste(&"a line of what was pasted\n".repeat(10_000))?;
    pty.wait_for_text("said pasted 10000 lines", TEST_TIMEOUT);
    Ok(())
}

#[test]
fn the_device_is_as_before_after_every_way_out() -> io::Result<()> {
    let lines = "echo modes $(stty -g); $PROGRAM; echo left $?; echo modes $(stty -g); echo end";
    for (way_out, status) in [("\x04", "0"), ("panic\r", "101"), ("exit\r", "7")] {
        let mut pty = start_in_shell(lines);
        pty.type_text(way_out)?;
        pty.wait(TEST_TIMEOUT)?;
        let modes = reported(&pty, "modes");
        assert_eq!(modes.len(), 2, "{way_out:?}: {:#?}", pty.screen());
        assert_eq!(modes[0], modes[1], "after {way_out:?}");
        assert_eq!(reported(&pty, "left"), [status], "after {way_out:?}: {:#?}", pty.screen());
        assert_eq!(pty.look(Emulator::modes), Vec::<&str>::new(), "after {way_out:?}");
    }
    Ok(())
}

#[test]
fn what_a_panic_says_is_readable() -> io::Result<()> {
    let mut pty = start();
    pty.type_text("panic\r")?;
    pty.wait(TEST_TIMEOUT)?;
    let rows = pty.look(Emulator::copied);
    let at = rows.iter().position(|row| row.contains("panicked at")).unwrap();
    assert_eq!(rows[at + 1], "said so", "{rows:#?}");
    Ok(())
}

#[test]
fn another_program_has_the_terminal_to_itself_while_it_is_lent_out() -> io::Result<()> {
    let mut pty = start();
    pty.type_text("lend\r")?;
    pty.wait_for_text("your name?", TEST_TIMEOUT);
    // It comes as a line, and is echoed by the terminal: its modes are the usual.
    pty.type_text("Ada\r")?;
    pty.wait_for_text("hello Ada", TEST_TIMEOUT);
    pty.wait_for_text("status", TEST_TIMEOUT);
    pty.type_text("back")?;
    pty.wait_for_text("> back", TEST_TIMEOUT);
    let all = pty.look(Emulator::copied);
    assert_eq!(all[all.len() - 4..], ["your name? Ada", "hello Ada", "> back", "status 60x12"]);
    Ok(())
}

#[test]
fn a_stopped_program_leaves_the_terminal_to_the_shell_and_takes_it_back() -> io::Result<()> {
    let lines = "set -m; echo modes $(stty -g); $PROGRAM; echo modes $(stty -g); fg >/dev/null; \
                 echo left $?; echo modes $(stty -g)";
    let mut pty = start_in_shell(lines);
    pty.type_text("kept\x1a")?;
    let modes =
        |seen: &Emulator| seen.copied().iter().filter(|row| row.starts_with("modes")).count();
    pty.wait_for(|seen| modes(seen) == 2, TEST_TIMEOUT);
    pty.wait_for_text("> kept", TEST_TIMEOUT);
    pty.type_text("!")?;
    pty.wait_for_text("> kept!", TEST_TIMEOUT);
    pty.key("\x15\x04")?;
    pty.wait(TEST_TIMEOUT)?;
    let modes = reported(&pty, "modes");
    assert_eq!(modes, [&*modes[0], &*modes[0], &*modes[0]], "{:#?}", pty.screen());
    assert_eq!(reported(&pty, "left"), ["0"]);
    assert_eq!(pty.look(Emulator::modes), Vec::<&str>::new());
    Ok(())
}

#[test]
fn a_closed_terminal_ends_the_program_by_its_own_will() -> io::Result<()> {
    let mut pty = start();
    pty.type_text("x")?;
    pty.wait_for_text("> x", TEST_TIMEOUT);
    pty.close();
    assert_eq!(pty.wait(TEST_TIMEOUT)?.code(), Some(3));
    Ok(())
}

#[test]
fn a_program_that_is_looked_at_can_be_ended() -> io::Result<()> {
    let mut pty = start();
    pty.kill(Signal::KILL)?;
    let status = pty.wait(TEST_TIMEOUT)?;
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    Ok(())
}
