//! Reports of the libraries: shown on standard error, and kept in the logs of the profile.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use vestal_logs::{Destinations, Echo, Level, LogHandle, Redact};

use super::Console;

/// Global, because the libraries' reports are.
static HANDLE: OnceLock<LogHandle> = OnceLock::new();

/// What standard error gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandardError {
    /// Messages for the person who runs the program.
    Messages,
    /// Every message as an entry of a log: whoever reads it is a program.
    Entries,
}

/// Begins to show reports: warnings, and everything when asked. No file is opened.
pub(crate) fn install(console: Console, verbose: bool) {
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
        HANDLE.set(handle).ok();
    }
}

/// Begins to keep reports in the logs of a profile, each as `redact` leaves it.
pub(crate) fn begin(logs_dir: &Path, standard_error: StandardError, redact: Redact) {
    let files = vec![
        (Level::Info, vestal_api::agent_log_files(logs_dir)),
        (Level::Warn, vestal_api::errors_log_files(logs_dir)),
    ];
    let echo: Option<Echo> = match standard_error {
        StandardError::Messages => None,
        // A reader that is gone is told nothing; the files have it.
        StandardError::Entries => Some(Box::new(|entry| {
            io::stderr().lock().write_all(entry.as_bytes()).ok();
        })),
    };
    begin_with(Destinations { files, echo, redact });
}

/// Begins to keep what a supervisor in the background says about itself. Its standard error leads to
/// the same file, so that nothing is printed there.
pub(crate) fn begin_supervisor(logs_dir: &Path) {
    let files = vec![(Level::Info, vestal_supervisor::detached_log_files(logs_dir))];
    let redact = Box::new(str::to_owned);
    begin_with(Destinations { files, echo: Some(Box::new(|_| {})), redact });
}

fn begin_with(destinations: Destinations) {
    if let Some(handle) = HANDLE.get() {
        handle.begin(destinations);
    }
}

/// Reports whether messages of the program are entries, like all else that standard error gets.
pub(super) fn takes_messages() -> bool {
    HANDLE.get().is_some_and(LogHandle::is_echoing)
}
