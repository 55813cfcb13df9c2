//! The `Console`: prints data to standard output; notes, warnings, errors and questions to standard error.

use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};

use anstyle::Style;
use clap::builder::StyledStr;
use clap::error::ErrorKind;
use serde::Serialize;
use vestal_api::TaskErrorView;
use vestal_config::Environment;

use super::output::{self, TerminalMessage};
use super::table::{self, Table};
use super::text::{self, StreamColour};
use super::{DIM, RED, YELLOW, logging, status, terminal};
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
        if logging::takes_messages() {
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
    pub(crate) fn ask_words(self, words: &str) {
        status::clear();
        // A terminal that is gone is asked nothing.
        io::stderr().write_all(words.as_bytes()).ok();
    }

    /// Prints a warning.
    pub(crate) fn warn(self, message: &str) {
        if logging::takes_messages() {
            return tracing::warn!(target: "vestal", "{message}");
        }
        say(&format!("{} {}", self.err.paint(YELLOW, "warning:"), text::printable(message)));
    }

    /// Prints a failure and what to do next.
    pub(crate) fn explain(self, failure: &CommandFailure) {
        let Some(message) = failure.message() else {
            return;
        };
        if logging::takes_messages() {
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
    /// here, the last by whoever ends the program.
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
            // What is said next begins on a line of its own.
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
    if output::offer(TerminalMessage::Line(line.to_owned())).is_ok() {
        return;
    }
    status::clear();
    io::stderr().write_all(format!("{line}\n").as_bytes()).ok();
}
