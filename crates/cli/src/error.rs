//! How a command fails: what happened, what to do next, and the exit code.

mod records;
mod sandboxes;

use std::io;

use vestal_api::{ErrorView, closest_name};

use crate::exit::Exit;
use crate::values::quoted;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    message: Option<String>,
    advice: Vec<String>,
    exit: Exit,
}

impl CommandFailure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), advice: Vec::new(), exit: Exit::Failed }
    }

    /// Returns the failure of a call of the system.
    pub(crate) fn io(action: &str, error: &io::Error) -> Self {
        let failure = Self::new(format!("cannot {action}: {error}"));
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.advise("free some space and try again")
            }
            _ => failure,
        }
    }

    /// Returns the failure of a write to our own output. A reader that is gone
    /// wants to hear nothing.
    pub(crate) fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { message: None, advice: Vec::new(), exit: Exit::BrokenPipe };
        }
        Self::io("write the output", error)
    }

    /// Returns a mistake on the command line that only showed later.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::new(message) }
    }

    /// Adds what to do next.
    #[must_use]
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }

    /// Adds which of these names was probably meant, if one is close enough.
    #[must_use]
    pub(crate) fn suggest<'a>(
        self,
        name: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        match closest_name(name, candidates) {
            Some(meant) => self.advise(format!("did you mean {}?", quoted(meant))),
            None => self,
        }
    }

    /// Says what the failure is about.
    #[must_use]
    pub(crate) fn about(mut self, what: &str) -> Self {
        self.message = self.message.map(|message| format!("{what}: {message}"));
        self
    }

    #[must_use]
    pub(crate) fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    pub(crate) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    pub(crate) fn advice(&self) -> &[String] {
        &self.advice
    }

    /// Returns the failure for `--json`; nothing if the reader of the output is gone.
    pub(crate) fn view(&self) -> Option<ErrorView> {
        let error = self.message.clone()?;
        Some(ErrorView { error, advice: self.advice.clone() })
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }
}
