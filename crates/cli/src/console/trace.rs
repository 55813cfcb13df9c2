//! What the libraries report on their way, on standard error.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::{Console, log};

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
            && (wanted(self.level) || (log::is_kept() && wanted(LOGGED)))
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        let level = if log::is_kept() { self.level.max(LOGGED) } else { self.level };
        Some(level.into())
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let text = format!("{}{}", line.message, line.fields);
        let level = *event.metadata().level();
        log::write(level, &text);
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
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        if field.name() == "message" {
            write!(self.message, "{value:?}").ok();
        } else {
            write!(self.fields, " {}={value:?}", field.name()).ok();
        }
    }
}
