//! The table.

use std::fmt;
use std::io::{self, Write as _};
use std::time::Duration;

use serde_json::{Value, json};

use crate::sample::Samples;

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// A measured value with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// A time.
    Milliseconds(f64),
    /// A size.
    Mebibytes(f64),
    /// A rate.
    MegabytesPerSecond(f64),
    /// How many things in a second.
    PerSecond(f64),
    /// How many things.
    Count(f64),
}

impl Figure {
    /// Returns a time.
    pub fn time(duration: Duration) -> Self {
        Self::Milliseconds(duration.as_secs_f64() * 1000.0)
    }

    /// Returns a size.
    #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
    pub fn size(bytes: u64) -> Self {
        Self::Mebibytes(bytes as f64 / f64::from(1 << 20))
    }

    /// Returns a rate.
    #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
    pub fn rate(bytes: u64, duration: Duration) -> Self {
        Self::MegabytesPerSecond(bytes as f64 / 1e6 / duration.as_secs_f64())
    }

    /// Returns how many things were done in a second.
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn per_second(count: u64, duration: Duration) -> Self {
        Self::PerSecond(count as f64 / duration.as_secs_f64())
    }

    /// Returns how many things there are.
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub const fn count(count: u64) -> Self {
        Self::Count(count as f64)
    }

    const fn value(self) -> f64 {
        match self {
            Self::Milliseconds(value)
            | Self::Mebibytes(value)
            | Self::MegabytesPerSecond(value)
            | Self::PerSecond(value)
            | Self::Count(value) => value,
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Milliseconds(_) => "ms",
            Self::Mebibytes(_) => "MiB",
            Self::MegabytesPerSecond(_) => "MB/s",
            Self::PerSecond(_) => "per s",
            Self::Count(_) => "",
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = matches!(self, Self::Count(_)) || self.value() >= 100.0;
        let decimals = if whole { 0 } else { 2 };
        let text = format!("{:.decimals$} {}", self.value(), self.unit());
        f.write_str(text.trim_end())
    }
}

/// What the contract allows.
#[derive(Debug, Clone, Copy)]
pub enum Bar {
    /// So many times the alternative.
    Times(f64),
    /// So much.
    AtMost(Figure),
    /// No less than so much.
    AtLeast(Figure),
    /// No less than so many times the alternative.
    TimesAtLeast(f64),
    /// So many times faster than the alternative.
    Faster(f64),
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(times) => write!(f, "≤ {times}×"),
            Self::AtMost(figure) => {
                f.write_str(format!("≤ {} {}", figure.value(), figure.unit()).trim_end())
            }
            Self::AtLeast(figure) => {
                f.write_str(format!("≥ {} {}", figure.value(), figure.unit()).trim_end())
            }
            Self::TimesAtLeast(times) => write!(f, "≥ {times}×"),
            Self::Faster(times) => write!(f, "≥ {times}× faster"),
        }
    }
}

/// Whether a row keeps to its bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BarVerdict {
    Kept,
    Missed,
    /// There is no bar.
    Reported,
    NotRun,
}

impl BarVerdict {
    const fn text(self) -> &'static str {
        match self {
            Self::Kept => "ok",
            Self::Missed => "MISSED",
            Self::Reported => "-",
            Self::NotRun => "not run",
        }
    }
}

/// One line of the table.
#[derive(Debug)]
pub struct BenchRow {
    what: String,
    ours: Option<Figure>,
    p95: Option<Figure>,
    other: Option<Figure>,
    /// All of them hold.
    bars: Vec<Bar>,
    compared: Compared,
    note: Option<String>,
}

/// Which of our figures is held against the alternative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    P50,
    P95,
}

impl BenchRow {
    /// Returns a row of durations.
    pub fn times(what: impl Into<String>, ours: &Samples) -> Self {
        let row = Self::single(what, Figure::time(ours.p50()));
        Self { p95: Some(Figure::time(ours.p95())), ..row }
    }

    /// Returns a row of one value.
    pub fn single(what: impl Into<String>, ours: Figure) -> Self {
        Self { ours: Some(ours), ..Self::empty(what.into()) }
    }

    /// Returns a row for what could not be measured here.
    pub fn not_run(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { note: Some(why.into()), ..Self::empty(what.into()) }
    }

    fn empty(what: String) -> Self {
        let compared = Compared::P50;
        Self { what, ours: None, p95: None, other: None, bars: Vec::new(), compared, note: None }
    }

    /// Sets the alternative's value.
    #[must_use]
    pub fn beside(mut self, other: Figure) -> Self {
        self.other = Some(other);
        self
    }

    /// Sets the alternative's value, to hold our slow runs against.
    #[must_use]
    pub fn p95_beside(mut self, other: Figure) -> Self {
        self.compared = Compared::P95;
        self.beside(other)
    }

    /// Adds what the contract allows.
    #[must_use]
    pub fn bar(mut self, bar: Bar) -> Self {
        self.bars.push(bar);
        self
    }

    /// Sets what readers should know.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Returns how many times the alternative's figure ours is.
    fn ratio(&self) -> Option<f64> {
        let ours = match self.compared {
            Compared::P50 => self.ours,
            Compared::P95 => self.p95,
        };
        Some(ours?.value() / self.other?.value())
    }

    /// Returns how many times faster than the alternative it is, where that is
    /// what the row promises.
    fn faster(&self) -> Option<f64> {
        let ratio = self.ratio()?;
        let promised = self.bars.iter().any(|bar| matches!(bar, Bar::Faster(_)));
        promised.then_some(match self.ours? {
            Figure::MegabytesPerSecond(_) | Figure::PerSecond(_) => ratio,
            Figure::Milliseconds(_) | Figure::Mebibytes(_) | Figure::Count(_) => ratio.recip(),
        })
    }

    fn verdict(&self) -> BarVerdict {
        let Some(ours) = self.ours else {
            return BarVerdict::NotRun;
        };
        // A bar with nothing to hold against it is not kept, but not run.
        let kept = self.bars.iter().map(|bar| match bar {
            Bar::Times(times) => self.ratio().map(|ratio| ratio <= *times),
            Bar::AtMost(most) => Some(ours.value() <= most.value()),
            Bar::AtLeast(least) => Some(ours.value() >= least.value()),
            Bar::TimesAtLeast(times) => self.ratio().map(|ratio| ratio >= *times),
            Bar::Faster(times) => self.faster().map(|faster| faster >= *times),
        });
        let kept: Vec<_> = kept.collect();
        if kept.is_empty() {
            BarVerdict::Reported
        } else if kept.contains(&Some(false)) {
            BarVerdict::Missed
        } else if kept.contains(&None) {
            BarVerdict::NotRun
        } else {
            BarVerdict::Kept
        }
    }

    fn bars_text(&self) -> String {
        self.bars.iter().map(Bar::to_string).collect::<Vec<_>>().join(", ")
    }

    fn ratio_text(&self) -> String {
        match (self.faster(), self.ratio()) {
            (Some(faster), _) => format!("{faster:.1}× faster"),
            (None, Some(ratio)) => format!("{ratio:.2}×"),
            (None, None) => String::new(),
        }
    }

    fn cells(&self) -> [String; 7] {
        let text = |figure: Option<Figure>| figure.map_or_else(String::new, |f| f.to_string());
        [
            self.what.clone(),
            text(self.ours),
            text(self.p95),
            text(self.other),
            self.ratio_text(),
            self.bars_text(),
            self.verdict().text().to_owned(),
        ]
    }

    fn json(&self) -> Value {
        let value = |figure: Option<Figure>| figure.map(Figure::value);
        json!({
            "what": self.what,
            "unit": self.ours.map(Figure::unit),
            "ours_p50": value(self.ours),
            "ours_p95": value(self.p95),
            "other_p50": value(self.other),
            "ratio": self.ratio(),
            "faster": self.faster(),
            "bar": (!self.bars.is_empty()).then(|| self.bars_text()),
            "verdict": self.verdict().text(),
            "note": self.note,
        })
    }
}

/// All rows, and the machine they were measured on.
#[derive(Debug)]
pub struct BenchReport {
    machine: Vec<(&'static str, String)>,
    rows: Vec<BenchRow>,
}

const HEADINGS: [&str; 7] = ["what", "ours p50", "p95", "other p50", "ratio", "bar", ""];

impl BenchReport {
    /// Returns a report without rows.
    pub fn new(machine: Vec<(&'static str, String)>) -> Self {
        Self { machine, rows: Vec::new() }
    }

    /// Adds a fact that the numbers depend on.
    pub fn fact(&mut self, name: &'static str, value: String) {
        self.machine.push((name, value));
    }

    /// Adds rows.
    pub fn add(&mut self, rows: Vec<BenchRow>) {
        self.rows.extend(rows);
    }

    /// Returns how many bars were missed.
    pub fn missed(&self) -> usize {
        self.rows.iter().filter(|row| row.verdict() == BarVerdict::Missed).count()
    }

    /// Prints the report for people.
    pub fn print_table(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for (name, value) in &self.machine {
            writeln!(out, "{name}: {value}")?;
        }
        writeln!(out)?;
        let lines: Vec<_> = std::iter::once(HEADINGS.map(str::to_owned))
            .chain(self.rows.iter().map(BenchRow::cells))
            .collect();
        let width = |column: usize| {
            lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
        };
        let widths: [usize; 7] = std::array::from_fn(width);
        for [what, ours, p95, other, ratio, bar, verdict] in &lines {
            let [w0, w1, w2, w3, w4, w5, _] = widths;
            let line = format!(
                "{what:<w0$}  {ours:>w1$}  {p95:>w2$}  {other:>w3$}  {ratio:>w4$}  {bar:<w5$}  {verdict}"
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        self.print_notes(&mut out)?;
        out.flush()
    }

    /// What several rows have to say is said once.
    fn print_notes(&self, out: &mut impl io::Write) -> io::Result<()> {
        let noted = |row: &&BenchRow| row.note.is_some();
        let rows: Vec<_> = self.rows.iter().filter(noted).collect();
        for rows in rows.chunk_by(|one, next| one.note == next.note) {
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
                continue;
            };
            let note = first.note.as_deref().unwrap_or_default();
            match rows.len() {
                1 => writeln!(out, "{}: {note}", first.what)?,
                count => {
                    writeln!(out, "{} … {} ({count} rows): {note}", first.what, last.what)?;
                }
            }
        }
        Ok(())
    }

    /// Prints the report for programs.
    pub fn print_json(&self) -> io::Result<()> {
        let machine: serde_json::Map<_, _> =
            self.machine.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let rows: Vec<_> = self.rows.iter().map(BenchRow::json).collect();
        let report = json!({ "machine": machine, "rows": rows, "missed": self.missed() });
        writeln!(io::stdout(), "{report:#}")
    }
}
