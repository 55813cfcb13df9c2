//! `vestal gateway logs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use vestal_api::{GatewayLogLineView, LogSource, log_sources};
use vestal_logs::{Level, LogFilter, LogWatch, MergedLogs, SourcedEntry};

use super::ChosenGateways;
use crate::console::{json, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::values::{PointInTime, parse_point_in_time};

/// An entry to which nothing was added for this long is complete.
const COMPLETE_AFTER: Duration = Duration::from_millis(100);
/// How often logs that are followed are looked at although nobody told of a change, as where they are
/// written through another mount.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often they are looked at where the system cannot report changes.
const POLL_EVERY: Duration = Duration::from_millis(500);

const AFTER_HELP: &str = "\
What the agent and the gateway of a profile did, from all of its logs, by time. An entry of several lines
is printed or left out as a whole; one that stands in several logs is printed once. Following goes on when
a log is rotated and when the gateway is restarted.

Logs: agent (all that chats, workers and gateways report), errors (its warnings, kept for longer), gateway
(what the gateway prints, and what its supervisor does with it), boot (what was started at boot),
supervisor (what a supervisor in the background says about itself), dashboard (as gateway, for the dashboard;
read with --all and --dashboard).

Examples:
  vestal gateway logs -f
  vestal gateway logs --level warn --since 1h --all
  vestal -p work gateway logs --session k3v9qd -n 200
  vestal gateway logs --source gateway --since '2026-01-31 10:00' --json";

/// Print what the agent and the gateway did.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct LogsArgs {
    #[command(flatten)]
    which: ChosenGateways,

    /// Keep printing new entries.
    #[arg(short, long)]
    follow: bool,

    /// Start with the last ENTRIES entries that match.
    #[arg(short = 'n', long, alias = "lines", value_name = "ENTRIES", default_value_t = 50)]
    entries: usize,

    /// Only print entries at least this serious: debug, info, warn or error.
    #[arg(long, value_name = "LEVEL")]
    level: Option<Level>,

    /// Only print entries of this conversation: its id, a beginning of it, or its last part.
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Only print entries that are not older: seconds, a number with s, m, h or d, or a time.
    #[arg(long, value_name = "AGE|TIME", value_parser = parse_point_in_time)]
    since: Option<PointInTime>,

    /// Only read these logs: agent, errors, gateway, boot, supervisor, dashboard; repeatable [default:
    /// all of the profile].
    #[arg(long, value_name = "LOG", value_delimiter = ',')]
    source: Vec<LogSource>,

    /// Print a JSON object per entry.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(context: &Context, args: &LogsArgs) -> Result<Exit, CommandFailure> {
    let home = context.home()?;
    let root = context.profiles()?.root().clone();
    let own = [home.profile().clone()];
    let profiles = if args.which.all { None } else { Some(own.as_slice()) };
    let wanted = match &args.source[..] {
        [] if args.which.dashboard => &[LogSource::Dashboard][..],
        [] if args.which.all => &LogSource::ALL[..],
        [] => &LogSource::OF_PROFILE[..],
        wanted => wanted,
    };
    let filter = LogFilter {
        level: args.level,
        session: args.session.clone(),
        since: args.since.map(|since| since.time(Timestamp::now())),
        text: None,
    };
    let takes_all = filter == LogFilter::default() && args.source.is_empty();
    let begun = Timestamp::now();
    let mut merged = MergedLogs::new(log_sources(&root, profiles, wanted), filter);
    // Watched before they are read: what is written in between is noticed.
    let mut changes = if args.follow { LogChanges::watch(&merged) } else { LogChanges::Polled };
    let last = merged.last(args.entries);
    if last.is_empty() && !args.follow && !args.json {
        context.console.note(if takes_all {
            "nothing was logged; to start a gateway: vestal gateway start"
        } else {
            "no entry matches"
        });
    }
    print(context, args, last)?;
    if !args.follow {
        return Ok(Exit::Success);
    }
    let profiles_dir = args.which.all.then(|| root.profiles_dir());
    changes.add(&merged, profiles_dir.clone());
    loop {
        // Profiles come and go while all of them are followed.
        if args.which.all && merged.add(log_sources(&root, None, wanted), begun) {
            changes.add(&merged, profiles_dir.clone());
        }
        print(context, args, merged.look())?;
        while merged.has_pending() {
            tokio::time::sleep(COMPLETE_AFTER).await;
            print(context, args, merged.look())?;
        }
        changes.next().await;
    }
}

/// How a follower learns that there may be more to read.
enum LogChanges {
    /// The system tells.
    Watched(AsyncFd<LogWatch>),
    /// It does not, so that the logs are looked at from time to time.
    Polled,
}

impl LogChanges {
    fn watch(merged: &MergedLogs) -> Self {
        #[expect(deprecated, reason = "an owned descriptor stays the same one, as it has to")]
        let watch = LogWatch::new(merged.files())
            .and_then(|watch| AsyncFd::with_interest(watch, Interest::READABLE));
        match watch {
            Ok(watch) => Self::Watched(watch),
            Err(error) => {
                tracing::debug!(%error, "logs are looked at from time to time");
                Self::Polled
            }
        }
    }

    /// Watches the logs that were added, and a directory in which more may come to be.
    fn add(&mut self, merged: &MergedLogs, dir: Option<PathBuf>) {
        let Self::Watched(watch) = self else { return };
        if let Err(error) = watch.get_mut().add(merged.files(), dir) {
            tracing::debug!(%error, "logs are looked at from time to time");
            *self = Self::Polled;
        }
    }

    /// Waits for a change, or as long as one may go unnoticed.
    async fn next(&mut self) {
        let Self::Watched(watch) = self else { return tokio::time::sleep(POLL_EVERY).await };
        let woken = match tokio::time::timeout(LOOK_EVERY, watch.readable_mut()).await {
            // Before it is read: what comes after that wakes again.
            Ok(Ok(mut ready)) => {
                ready.clear_ready();
                Ok(())
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(()),
        };
        if let Err(error) = woken.and_then(|()| watch.get_mut().take()) {
            tracing::debug!(%error, "logs are looked at from time to time");
            *self = Self::Polled;
        }
    }
}

fn print(
    context: &Context,
    args: &LogsArgs,
    entries: Vec<SourcedEntry>,
) -> Result<(), CommandFailure> {
    let mut shown = String::new();
    for entry in entries {
        let view = GatewayLogLineView::from(entry);
        if args.json {
            shown.push_str(&json::line(&view)?);
            continue;
        }
        let GatewayLogLineView { profile, at, line, .. } = &view;
        if let Some(at) = at {
            shown.extend([at, " "]);
        }
        if let Some(profile) = profile.as_ref().filter(|_| args.which.all) {
            shown.extend([profile, ": "]);
        }
        shown.extend([text::harmless(line).as_str(), "\n"]);
    }
    if shown.is_empty() {
        return Ok(());
    }
    context.console.write(&shown)
}
