//! Reports of the libraries: shown on standard error, and kept in `agent.log`.

use std::fmt::{self, Write as _};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::OnceLock;

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::{Console, text};

/// What goes into the log, where there is one.
const LOGGED: Level = Level::INFO;

/// Begins to show reports: warnings, and everything when asked.
pub(crate) fn install(console: Console, verbose: bool) {
    let level = if verbose { Level::DEBUG } else { Level::WARN };
    // Only a second call could fail, and there is none.
    tracing::subscriber::set_global_default(Reporter { console, level }).ok();
}

struct Reporter {
    console: Console,
    level: Level,
}

impl Subscriber for Reporter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let wanted = |level: Level| *metadata.level() <= level;
        metadata.target().starts_with("vestal")
            && (wanted(self.level) || (has_file() && wanted(LOGGED)))
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        let level = if has_file() { self.level.max(LOGGED) } else { self.level };
        Some(level.into())
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = LogLine::default();
        event.record(&mut line);
        let text = format!("{}{}", line.message, line.fields);
        let level = *event.metadata().level();
        write_to_file(level, &text);
        if level <= Level::WARN {
            self.console.warn(&text);
        } else if level <= self.level {
            self.console.note(&text);
        }
    }

    // The libraries report events only.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// One report as text: the message, then what belongs to it.
#[derive(Default)]
struct LogLine {
    message: String,
    fields: String,
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        if field.name() == "message" {
            write!(self.message, "{value:?}").ok();
        } else {
            write!(self.fields, " {}={value:?}", field.name()).ok();
        }
    }
}

/// Name of the file in the directory of logs.
const FILE_NAME: &str = "agent.log";

/// Size from which a new file is begun; one old file is kept.
const ROTATE_AT: u64 = 8 << 20;

/// The file of this process. Global, because the libraries' reports are.
static LOG_FILE: OnceLock<LogFile> = OnceLock::new();

struct LogFile {
    file: File,
    mask: Box<dyn Fn(&str) -> String + Send + Sync>,
}

/// Begins to keep reports in a file, each as `mask` leaves it. Without the
/// file everything else goes on.
pub(crate) fn begin_file(dir: &Path, mask: impl Fn(&str) -> String + Send + Sync + 'static) {
    match open_file(dir) {
        Ok(file) => {
            if LOG_FILE.set(LogFile { file, mask: Box::new(mask) }).is_ok() {
                // Reports that were disabled until now are needed from now on.
                tracing::callsite::rebuild_interest_cache();
            }
        }
        Err(error) => tracing::warn!(%error, dir = %dir.display(), "no log is kept"),
    }
}

/// Reports whether there is a file.
fn has_file() -> bool {
    LOG_FILE.get().is_some()
}

/// Adds a line. Others add to the same file, so a line is one write.
fn write_to_file(level: Level, message: &str) {
    let Some(log) = LOG_FILE.get() else { return };
    let message = text::printable(&(log.mask)(message));
    let line = format!("{} {level} [{}] {message}\n", Timestamp::now(), std::process::id());
    // A full disk is reported by the operations that need it.
    (&log.file).write_all(line.as_bytes()).ok();
}

fn open_file(dir: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let path = dir.join(FILE_NAME);
    if std::fs::metadata(&path).is_ok_and(|found| found.len() > ROTATE_AT) {
        std::fs::rename(&path, dir.join(format!("{FILE_NAME}.1")))?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
