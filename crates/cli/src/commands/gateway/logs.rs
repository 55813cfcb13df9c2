//! `vestal gateway logs`.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use vestal_api::GatewayLogLineView;
use vestal_supervisor::{LogEntry, LogReader, time_of};

use super::Which;
use super::slots::ProfileSlots;
use crate::console::{json, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::values::parse_duration;

/// How often a log that is followed is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

const AFTER_HELP: &str = "\
What the gateway printed, and what its supervisor did with it, with the time in front of each line.
Following goes on when the log is rotated and when the gateway is restarted.

Examples:
  vestal gateway logs -n 100
  vestal gateway logs --all --since 1h
  vestal -p work gateway logs -f";

/// Print the log of gateways.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct LogsArgs {
    #[command(flatten)]
    which: Which,

    /// Keep printing new lines.
    #[arg(short, long)]
    follow: bool,

    /// Start with the last LINES lines.
    #[arg(short = 'n', long, value_name = "LINES", default_value_t = 50)]
    lines: usize,

    /// Only print lines that are not older than this: seconds, or a number with s, m, h or d.
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    since: Option<Duration>,

    /// Print a JSON object per line.
    #[arg(long)]
    json: bool,
}

struct Log {
    profile: String,
    reader: LogReader,
    /// Whether the line before is wanted; one without a time goes with it.
    wanted: bool,
}

struct Line {
    at: Option<Timestamp>,
    view: GatewayLogLineView,
}

pub(super) async fn run(context: &Context, args: &LogsArgs) -> Result<Exit, Failure> {
    let slots = ProfileSlots::new(context)?;
    let names = match args.which.slots(context)? {
        Some(names) => names,
        None => slots.root().profiles().iter().map(ToString::to_string).collect(),
    };
    let since = args.since.and_then(|age| Timestamp::now().checked_sub(age).ok());
    let dir = slots.root().logs_dir().join("gateways");
    let mut logs: Vec<Log> = names
        .into_iter()
        .map(|profile| {
            let reader = LogReader::new(dir.join(&profile));
            Log { profile, reader, wanted: since.is_none() }
        })
        .collect();
    let mut lines = Vec::new();
    read(&mut logs, since, |line| lines.push(line))?;
    lines.sort_by_key(|line| line.at);
    let first = lines.len().saturating_sub(args.lines);
    for line in &lines[first..] {
        print(context, args, line)?;
    }
    if lines.is_empty() && !args.follow && !args.json {
        context.console.note("nothing was logged; to start a gateway: vestal gateway start");
    }
    drop(lines);
    if !args.follow {
        return Ok(Exit::Success);
    }
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let mut lines = Vec::new();
        read(&mut logs, since, |line| lines.push(line))?;
        lines.sort_by_key(|line| line.at);
        for line in &lines {
            print(context, args, line)?;
        }
    }
}

/// Reads all lines that are new and wanted.
fn read(
    logs: &mut [Log],
    since: Option<Timestamp>,
    mut take: impl FnMut(Line),
) -> Result<(), Failure> {
    for log in logs {
        let Log { profile, reader, wanted } = log;
        let mut previous = None;
        let result = reader.read(|entry| {
            let (at, bytes): (Option<Timestamp>, &[u8]) = match entry {
                LogEntry::Line(line) => (time_of(line), line),
                LogEntry::Gap => {
                    (previous, b"(lines are missing here: they were removed before they were read)")
                }
            };
            if let (Some(at), Some(since)) = (at, since) {
                *wanted = at >= since;
            }
            previous = at.or(previous);
            if *wanted {
                let line = String::from_utf8_lossy(bytes);
                let line = match (at, line.split_once(' ')) {
                    (Some(_), Some((_, rest))) if matches!(entry, LogEntry::Line(_)) => {
                        rest.to_owned()
                    }
                    _ => line.into_owned(),
                };
                let view = GatewayLogLineView {
                    profile: profile.clone(),
                    at: previous.map(|at| format!("{at:.3}")),
                    line,
                };
                take(Line { at: previous, view });
            }
        });
        result.map_err(|error| Failure::io(&format!("read the log of {profile}"), &error))?;
    }
    Ok(())
}

fn print(context: &Context, args: &LogsArgs, line: &Line) -> Result<(), Failure> {
    if args.json {
        return context.console.write(&json::line(&line.view)?);
    }
    let GatewayLogLineView { profile, at, line } = &line.view;
    let at = at.as_deref().unwrap_or_default();
    let line = text::harmless(line);
    if args.which.all {
        return context.console.print(&format!("{at} {profile}: {line}"));
    }
    context.console.print(&format!("{at} {line}"))
}
