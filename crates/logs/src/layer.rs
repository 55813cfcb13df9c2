//! What libraries report with `tracing`, as entries: in files, on standard error, on a terminal.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::entry::{Level, NewEntry};
use crate::files::LogFiles;
use crate::writer::LogWriter;

/// Masks secrets in the text of an entry.
pub type Redact = Box<dyn Fn(&str) -> String + Send + Sync>;

/// Takes an entry as it stands in a file.
pub type Echo = Box<dyn Fn(&str) + Send + Sync>;

/// Where entries go.
pub struct Destinations {
    /// Files, each for entries of at least a level. Nothing is opened before the first of them.
    pub files: Vec<(Level, LogFiles)>,
    /// Gets every entry as it would stand in a file, of information and above, instead of the
    /// function that shows reports.
    pub echo: Option<Echo>,
    /// Applied to the text of each entry.
    pub redact: Redact,
}

impl fmt::Debug for Destinations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let echoes = self.echo.is_some();
        f.debug_struct("Destinations")
            .field("files", &self.files)
            .field("echoes", &echoes)
            .finish_non_exhaustive()
    }
}

/// A report that is shown, not written.
#[derive(Debug, Clone, Copy)]
pub struct ShownReport<'a> {
    /// How serious it is.
    pub level: Level,
    /// The message, then `key=value` for what belongs to it. Nothing is masked.
    pub text: &'a str,
}

/// Returns a layer for reports whose target begins with `prefix`, and the handle by which they get
/// destinations. `show` gets what is of level `shown` and above; a `filter` of `OFF` shows nothing.
pub fn layer(
    prefix: &'static str,
    shown: LevelFilter,
    show: impl Fn(ShownReport<'_>) + Send + Sync + 'static,
) -> (LogLayer, LogHandle) {
    let show = Box::new(show);
    let shared = Arc::new(LayerState { prefix, shown, show, outputs: OnceLock::new() });
    (LogLayer(Arc::clone(&shared)), LogHandle(shared))
}

/// Takes in what libraries report, with the fields `session`, `run` and `task` of the spans around.
pub struct LogLayer(Arc<LayerState>);

/// Gives reports their destinations. Clones are for the same layer.
#[derive(Clone)]
pub struct LogHandle(Arc<LayerState>);

struct LayerState {
    prefix: &'static str,
    shown: LevelFilter,
    show: Box<dyn Fn(ShownReport<'_>) + Send + Sync>,
    outputs: OnceLock<Outputs>,
}

struct Outputs {
    files: Vec<(Level, Mutex<LogWriter>)>,
    echo: Option<Echo>,
    redact: Redact,
    /// The least serious level that goes anywhere.
    lowest: LevelFilter,
}

impl fmt::Debug for LogLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogLayer")
    }
}

impl fmt::Debug for LogHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogHandle")
    }
}

impl LogLayer {
    /// Makes the layer the one that everything in this process reports to. Returns false if there
    /// is another already.
    pub fn install(self) -> bool {
        tracing::subscriber::set_global_default(self.into_subscriber()).is_ok()
    }

    /// Returns a subscriber with this layer alone.
    pub fn into_subscriber(self) -> impl Subscriber + Send + Sync {
        tracing_subscriber::registry().with(self)
    }
}

impl LogHandle {
    /// Gives reports their destinations. Only the first call has an effect; returns whether this was
    /// it.
    pub fn begin(&self, destinations: Destinations) -> bool {
        let Destinations { files, echo, redact } = destinations;
        let lowest =
            files.iter().map(|(level, _)| *level).chain(echo.as_ref().map(|_| Level::Info));
        let lowest = lowest.min().map_or(LevelFilter::OFF, filter);
        let writer = |(level, files)| (level, Mutex::new(LogWriter::new(files)));
        let files = files.into_iter().map(writer).collect();
        let is_first = self.0.outputs.set(Outputs { files, echo, redact, lowest }).is_ok();
        if is_first {
            // Reports that were disabled until now are needed from now on.
            tracing::callsite::rebuild_interest_cache();
        }
        is_first
    }

    /// Reports whether every report is echoed as an entry.
    pub fn is_echoing(&self) -> bool {
        self.0.outputs.get().is_some_and(|outputs| outputs.echo.is_some())
    }
}

fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Trace => LevelFilter::TRACE,
        Level::Debug => LevelFilter::DEBUG,
        Level::Info => LevelFilter::INFO,
        Level::Warn => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
    }
}

impl LayerState {
    fn written(&self) -> LevelFilter {
        self.outputs.get().map_or(LevelFilter::OFF, |outputs| outputs.lowest)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for LogLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let shared = &self.0;
        let written = *metadata.level() <= shared.written();
        // Spans are for what is written: without that, they cost nothing.
        let shown = metadata.is_event() && *metadata.level() <= shared.shown;
        metadata.target().starts_with(shared.prefix) && (written || shown)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0.shown.max(self.0.written()))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = SpanFields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<SpanFields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let shared = &self.0;
        let level = Level::from(*event.metadata().level());
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let outputs = shared.outputs.get();
        if let Some(outputs) = outputs
            && *event.metadata().level() <= outputs.lowest
        {
            let around = SpanFields::around(event, &context);
            outputs.write(level, event.metadata().target(), &fields, &around);
        }
        let is_echoed = outputs.is_some_and(|outputs| outputs.echo.is_some());
        if !is_echoed && *event.metadata().level() <= shared.shown {
            let EventFields { message, session, rest } = fields;
            let session = session.map(|(name, value)| format!(" {name}={value}"));
            let text = format!("{message}{}{rest}", session.unwrap_or_default());
            (shared.show)(ShownReport { level, text: &text });
        }
    }
}

impl Outputs {
    fn write(&self, level: Level, target: &str, fields: &EventFields, around: &SpanFields) {
        let mut text = format!("{}{}", fields.message, fields.rest);
        // Writing to a string cannot fail.
        for (name, value) in [("task", &around.task), ("run", &around.run)] {
            if let Some(value) = value {
                write!(text, " {name}={value}").ok();
            }
        }
        let text = (self.redact)(&text);
        let own = fields.session.as_ref().map(|(_, session)| session.as_str());
        let session = own.or(around.session.as_deref());
        let entry = NewEntry { level, session, target, text: &text }.format(Timestamp::now());
        for (least, writer) in &self.files {
            if level >= *least {
                let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                // Lost entries are counted in the log. The operation continues.
                writer.write(entry.as_bytes()).ok();
            }
        }
        if let Some(echo) = &self.echo
            && level >= Level::Info
        {
            echo(&entry);
        }
    }
}

/// What an event says.
#[derive(Debug, Default)]
struct EventFields {
    message: String,
    /// The conversation that it names itself, and by which word.
    session: Option<(&'static str, String)>,
    rest: String,
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        match field.name() {
            "message" => write!(self.message, "{value:?}").ok(),
            name @ ("session" | "conversation") => {
                self.session = Some((name, format!("{value:?}")));
                None
            }
            name => write!(self.rest, " {name}={value:?}").ok(),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            name @ ("session" | "conversation") => self.session = Some((name, value.to_owned())),
            _ => self.record_debug(field, &value),
        }
    }
}

/// What a span says about whatever is reported within it.
#[derive(Debug, Default)]
struct SpanFields {
    session: Option<String>,
    run: Option<String>,
    task: Option<String>,
}

impl SpanFields {
    /// Returns what the spans around an event say, the innermost first.
    fn around<S>(event: &Event<'_>, context: &Context<'_, S>) -> Self
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let mut found = Self::default();
        for span in context.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            let Some(fields) = extensions.get::<Self>() else { continue };
            found.session = found.session.or_else(|| fields.session.clone());
            found.run = found.run.or_else(|| fields.run.clone());
            found.task = found.task.or_else(|| fields.task.clone());
        }
        found
    }

    fn place(&mut self, name: &str) -> Option<&mut Option<String>> {
        match name {
            "session" => Some(&mut self.session),
            "run" => Some(&mut self.run),
            "task" => Some(&mut self.task),
            _ => None,
        }
    }
}

impl Visit for SpanFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if let Some(place) = self.place(field.name()) {
            *place = Some(format!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(place) = self.place(field.name()) {
            *place = Some(value.to_owned());
        }
    }
}

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
