//! The `Console`: prints data to standard output; notes, warnings, errors and questions to standard
//! error, or where a chat that draws on the terminal or a log takes them. Reports of the libraries go
//! the same way.

use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use anstyle::Style;
use clap::builder::StyledStr;
use clap::error::ErrorKind;
use serde::Serialize;
use tracing::level_filters::LevelFilter;
use vestal_api::TaskErrorView;
use vestal_config::Environment;
use vestal_logs::{Destinations, Echo, Level, LogHandle, Redact};

use super::output::StreamColour;
use super::table::{self, Table};
use super::{DIM, RED, YELLOW, status, terminal, text};
use crate::error::CommandFailure;
use crate::exit::Exit;

/// Prints to standard output and standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Console {
    out: StreamColour,
    err: StreamColour,
}

impl Console {
    pub(crate) fn new(environment: &Environment) -> Self {
        Self {
            out: StreamColour::decide(environment, io::stdout().is_terminal()),
            err: StreamColour::decide(environment, io::stderr().is_terminal()),
        }
    }

    /// Reports whether standard output shows colour.
    pub(crate) fn is_coloured(self) -> bool {
        self.out == StreamColour::On
    }

    /// Prints a line of data.
    pub(crate) fn print(self, line: &str) -> Result<(), CommandFailure> {
        self.write(&format!("{line}\n"))
    }

    /// Prints text that has its own ends of lines.
    #[expect(clippy::unused_self, reason = "printing goes through the console")]
    pub(crate) fn write(self, text: &str) -> Result<(), CommandFailure> {
        let mut stdout = io::stdout().lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(|error| CommandFailure::output(&error))
    }

    /// Prints a value as JSON: on one line for programs, indented for people.
    pub(crate) fn print_json(self, value: &impl Serialize) -> Result<(), CommandFailure> {
        let json = if io::stdout().is_terminal() {
            serde_json::to_string_pretty(value)
        } else {
            serde_json::to_string(value)
        };
        self.print(
            &json.map_err(|error| {
                CommandFailure::new(format!("cannot be written as JSON: {error}"))
            })?,
        )
    }

    /// Prints a table as wide as the terminal, or as it is.
    pub(crate) fn print_table(self, table: &Table) -> Result<(), CommandFailure> {
        self.write(&table.render(terminal::output_width(), self.out))
    }

    /// Prints help.
    pub(crate) fn print_styled(self, help: &StyledStr) -> Result<(), CommandFailure> {
        self.write(&styled(help, self.out))
    }

    /// Returns text in a style, for standard output.
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        self.out.paint(style, text)
    }

    /// Prints a note.
    pub(crate) fn note(self, message: &str) {
        if takes_messages() {
            return tracing::info!(target: "vestal", "{message}");
        }
        let line = format!("note: {}", text::printable(message));
        say(&self.err.paint(DIM, &line));
    }

    /// Prints a dimmed line, cut to the width of the terminal.
    pub(crate) fn aside(self, message: &str) {
        let width = terminal::error_width().unwrap_or(usize::MAX);
        let line = table::cut(&text::printable(message), width);
        say(&self.err.paint(DIM, &line));
    }

    /// Puts a question on the terminal, as it is; the answer is typed behind it.
    #[expect(clippy::unused_self, reason = "printing goes through the console")]
    pub(crate) fn write_question(self, words: &str) {
        status::clear();
        // A terminal that is gone is asked nothing.
        io::stderr().write_all(words.as_bytes()).ok();
    }

    /// Prints a warning.
    pub(crate) fn warn(self, message: &str) {
        if takes_messages() {
            return tracing::warn!(target: "vestal", "{message}");
        }
        say(&format!("{} {}", self.err.paint(YELLOW, "warning:"), text::printable(message)));
    }

    /// Prints a failure and what to do next.
    pub(crate) fn explain(self, failure: &CommandFailure) {
        let Some(message) = failure.message() else {
            return;
        };
        if takes_messages() {
            let advice = failure.advice().iter().map(|advice| format!("\n{advice}"));
            let advice: String = advice.collect();
            return tracing::error!(target: "vestal", "{message}{advice}");
        }
        say(&format!("{} {}", self.err.paint(RED, "error:"), text::printable_lines(message)));
        for advice in failure.advice() {
            say(&format!("  {}", text::printable_lines(advice)));
        }
    }

    /// Ends a command that went on after failures: all but the last are explained
    /// here, the last by the code that ends the program.
    pub(crate) fn conclude(
        self,
        mut failures: Vec<(String, CommandFailure)>,
    ) -> Result<Exit, CommandFailure> {
        let last = failures.pop();
        for (_, failure) in &failures {
            self.explain(failure);
        }
        last.map_or(Ok(Exit::Success), |(_, failure)| Err(failure))
    }

    /// Ends a command that went on after failures and was asked for JSON: prints
    /// what it has done and, in the same array, what it could not do.
    pub(crate) fn conclude_in_json(
        self,
        done: &[impl Serialize],
        failures: &[(String, CommandFailure)],
    ) -> Result<Exit, CommandFailure> {
        let unwritable = |error| CommandFailure::new(format!("cannot be written as JSON: {error}"));
        let mut all: Vec<serde_json::Value> = Vec::with_capacity(done.len() + failures.len());
        for one in done {
            all.push(serde_json::to_value(one).map_err(unwritable)?);
        }
        for (task, failure) in failures {
            self.explain(failure);
            let failed = TaskErrorView {
                advice: failure.advice().to_vec(),
                error: failure.message().map(str::to_owned),
                task: task.clone(),
            };
            all.push(serde_json::to_value(failed).map_err(unwritable)?);
        }
        self.print_json(&all)?;
        Ok(failures.last().map_or(Exit::Success, |(_, failure)| failure.exit()))
    }

    /// Says what is wrong with the command line, or shows the help asked for.
    pub(crate) fn explain_usage(self, error: &clap::Error) -> Exit {
        let help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        if help {
            return match self.print_styled(&error.render()) {
                Ok(()) => Exit::Success,
                Err(failure) => failure.exit(),
            };
        }
        say(styled(&error.render(), self.err).trim_end());
        Exit::Usage
    }

    /// Asks a question on the terminal; anything but yes is no.
    pub(crate) fn ask(self, question: &str) -> bool {
        let answer = self.ask_for(&format!("{question} [y/N]"));
        answer.is_some_and(|answer| matches!(answer.as_str(), "y" | "Y" | "yes" | "Yes"))
    }

    /// Asks for some text on the terminal; none without an answer.
    #[expect(clippy::unused_self, reason = "printing goes through the console")]
    pub(crate) fn ask_for(self, question: &str) -> Option<String> {
        put(question)?;
        let answer = terminal::read_line(terminal::typed());
        if answer.is_none() {
            // The next message begins on a line of its own.
            io::stderr().write_all(b"\n").ok();
        }
        answer
    }

    /// Asks for something that is not shown while it is typed; none when nobody
    /// answers, or when Ctrl-C or Ctrl-D says that there will be no answer.
    #[expect(clippy::unused_self, reason = "printing goes through the console")]
    pub(crate) fn ask_secret(self, question: &str) -> Option<String> {
        // Raw, so that Ctrl-C cannot leave a terminal behind that shows nothing;
        // and before the question, so that no answer comes too early to be hidden.
        let answer = {
            terminal::restore_on_signals();
            let _raw = terminal::Raw::enter().ok()?;
            put(question)?;
            terminal::read_hidden_line(terminal::typed())
        };
        io::stderr().write_all(b"\n").ok()?;
        answer
    }

    /// Awaits some work and says what it is if that takes more than a second.
    pub(crate) async fn while_waiting<T>(self, what: &str, work: impl Future<Output = T>) -> T {
        let line = format!("{} …", text::printable(what));
        status::while_waiting(|| line.clone(), work).await
    }
}

/// Puts a question on the terminal; the answer is typed behind it. What it asks
/// about may have any name.
fn put(question: &str) -> Option<()> {
    status::clear();
    let mut stderr = io::stderr().lock();
    write!(stderr, "{} ", text::printable(question)).and_then(|()| stderr.flush()).ok()
}

fn styled(text: &StyledStr, colour: StreamColour) -> String {
    match colour {
        StreamColour::On => text.ansi().to_string(),
        StreamColour::Off => text.to_string(),
    }
}

/// Writes a line to standard error; an error is ignored, because it could not be reported.
fn say(line: &str) {
    if offer(TerminalMessage::Line(line.to_owned())).is_ok() {
        return;
    }
    status::clear();
    io::stderr().write_all(format!("{line}\n").as_bytes()).ok();
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminalMessage {
    /// A line, for good.
    Line(String),
    /// The new content of the status line; none clears it.
    Status(Option<String>),
}

type Receiver = Box<dyn Fn(TerminalMessage) + Send>;

/// The receiver of messages. Global, because there is one terminal, and the chat that draws on
/// it has to get every message, including the reports of libraries.
static RECEIVER: Mutex<Option<Receiver>> = Mutex::new(None);

/// Redirects all messages for standard error, until [`restore_messages`].
pub(crate) fn redirect_messages(take: impl Fn(TerminalMessage) + Send + 'static) {
    *RECEIVER.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(take));
}

/// Sends messages to the terminal again.
pub(crate) fn restore_messages() {
    *RECEIVER.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Hands a message to the receiver; returns it if there is none.
pub(super) fn offer(message: TerminalMessage) -> Result<(), TerminalMessage> {
    match &*RECEIVER.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(take) => {
            take(message);
            Ok(())
        }
        None => Err(message),
    }
}

/// Global, because the libraries' reports are.
static LOG: OnceLock<LogHandle> = OnceLock::new();

/// What standard error gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandardError {
    /// Messages for the person who runs the program.
    Messages,
    /// Every message as an entry of a log, for programs.
    Entries,
}

/// Begins to show reports: warnings, and everything when asked. No file is opened.
pub(crate) fn show_reports(console: Console, verbose: bool) {
    let shown = if verbose { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let (layer, handle) = vestal_logs::layer("vestal", shown, move |report| {
        if report.level >= Level::Warn {
            console.warn(report.text);
        } else {
            console.note(report.text);
        }
    });
    // Only a second call could fail, and there is none.
    if layer.install() {
        LOG.set(handle).ok();
    }
}

/// Begins to keep reports in the logs of a profile, each as `redact` leaves it.
pub(crate) fn keep_reports(logs_dir: &Path, standard_error: StandardError, redact: Redact) {
    let files = vec![
        (Level::Info, vestal_api::agent_log_files(logs_dir)),
        (Level::Warn, vestal_api::errors_log_files(logs_dir)),
    ];
    let echo: Option<Echo> = match standard_error {
        StandardError::Messages => None,
        // A reader that is gone is not notified; the files have it.
        StandardError::Entries => Some(Box::new(|entry| {
            io::stderr().lock().write_all(entry.as_bytes()).ok();
        })),
    };
    keep_in(Destinations { files, echo, redact });
}

/// Begins to keep what a supervisor in the background says about itself. Its standard error leads to
/// the same file, so that nothing is printed there.
pub(crate) fn keep_supervisor_reports(logs_dir: &Path) {
    let files = vec![(Level::Info, vestal_supervisor::detached_log_files(logs_dir))];
    let redact = Box::new(str::to_owned);
    keep_in(Destinations { files, echo: Some(Box::new(|_| {})), redact });
}

fn keep_in(destinations: Destinations) {
    if let Some(handle) = LOG.get() {
        handle.begin(destinations);
    }
}

/// Reports whether messages of the program are entries, like all else that standard error gets.
fn takes_messages() -> bool {
    LOG.get().is_some_and(LogHandle::is_echoing)
}
