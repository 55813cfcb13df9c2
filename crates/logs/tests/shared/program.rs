//! A process that writes a log beside others: `log-writer PATH MAX_BYTES BACKUPS NAME COUNT`.
//!
//! It writes COUNT entries and prints the number of each once it is written. With COUNT 0 it writes
//! each line that it reads, and prints how many entries are lost then.

use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;

use vestal_logs::{Level, LogFiles, LogWriter, NewEntry};

fn main() -> ExitCode {
    match run() {
        Some(()) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    }
}

fn run() -> Option<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next()?;
    let max_bytes = arguments.next()?.parse().ok()?;
    let backups = arguments.next()?.parse().ok()?;
    let name = arguments.next()?;
    let count: u64 = arguments.next()?.parse().ok()?;
    let mut log = LogWriter::new(LogFiles::new(path, max_bytes, backups));
    let mut write = |text: &str| {
        let entry = NewEntry { level: Level::Info, session: None, target: &name, text };
        // What is lost is counted.
        log.write(entry.format(jiff::Timestamp::now()).as_bytes()).ok();
        log.lost()
    };
    let mut output = io::stdout().lock();
    if count == 0 {
        for line in io::stdin().lock().lines() {
            writeln!(output, "{}", write(&line.ok()?)).ok()?;
        }
        return Some(());
    }
    for number in 0..count {
        if write(&format!("line {number}\nof {name}")) == 0 {
            writeln!(output, "{number}").ok()?;
        }
    }
    Some(())
}
