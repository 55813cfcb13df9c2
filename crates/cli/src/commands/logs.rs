//! `vestal logs`.

use clap::Args;
use vestal_api::JobPrefix;
use vestal_sandbox::client::Connection;
use vestal_sandbox::job::{self, JobEvent};
use vestal_sandbox::{AttachJob, JobInfo, JobState, OutputDelivery};

use crate::cli::JobPlace;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::find;
use crate::follow::{Followed, JobOutlet, OutputStreams, pass_on};

/// First look back for the last lines of a log; each further one is twice that.
const FIRST_LOOK: u64 = 64 << 10;

const AFTER_HELP: &str = "\
Following a job never slows it down: if you read too slowly, output is skipped and the gap is
reported.

`vestal gateway logs` prints what the agent and the gateways did.

Examples:
  vestal logs -f j-06f3
  vestal logs --tail 20 --stderr j-06f3";

/// Print the output of a job, standard output and standard error apart.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    place: JobPlace,

    /// Keep printing until the job ends.
    #[arg(short, long)]
    follow: bool,

    /// Only print standard output.
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,

    /// Only print standard error.
    #[arg(long)]
    stderr: bool,

    /// Start with the last LINES lines.
    #[arg(long, value_name = "LINES")]
    tail: Option<u64>,

    /// Start with the last BYTES bytes.
    #[arg(long, value_name = "BYTES", conflicts_with = "tail")]
    tail_bytes: Option<u64>,

    /// Job id, or a unique prefix of it.
    #[arg(value_name = "JOB", required_unless_present_any = GATEWAY_FLAGS)]
    job: Option<JobPrefix>,

    #[command(flatten)]
    elsewhere: ElsewhereArgs,
}

/// Flags of [`ElsewhereArgs`].
const GATEWAY_FLAGS: [&str; 5] = ["level", "session", "since", "source", "entries"];

/// Flags of `vestal gateway logs`, accepted here to point to that command.
#[derive(Debug, Args)]
struct ElsewhereArgs {
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "")]
    level: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "")]
    session: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "")]
    since: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "")]
    source: Option<String>,
    #[arg(short = 'n', hide = true, num_args = 0..=1, default_missing_value = "")]
    entries: Option<String>,
}

impl ElsewhereArgs {
    fn is_given(&self) -> bool {
        [&self.level, &self.session, &self.since, &self.source, &self.entries]
            .iter()
            .any(|flag| flag.is_some())
    }
}

pub(crate) async fn run(context: &Context, args: LogsArgs) -> Result<Exit, CommandFailure> {
    let Some(job) = args.job.filter(|_| !args.elsewhere.is_given()) else {
        let message =
            "`vestal logs` prints the output of a job, and these are flags of another log";
        return Err(CommandFailure::usage(message)
            .advise("what the agent and the gateway did: vestal gateway logs --help")
            .advise("the last lines of a job: vestal logs --tail LINES JOB"));
    };
    let engine = context.engine()?;
    let found = find::job(context, &engine, args.place.task.as_ref(), &job).await?;
    let tail = match (args.tail, args.tail_bytes) {
        (Some(lines), _) => LogTail::Lines(lines),
        (None, Some(bytes)) => LogTail::Bytes(bytes),
        (None, None) => LogTail::Everything,
    };
    let start = tail_start(&found.connection, &found.info, tail).await?;
    let request = AttachJob {
        id: found.info.id.clone(),
        stdout_from: start.stdout,
        stderr_from: start.stderr,
        follow: args.follow,
        delivery: delivery(&found.info),
    };
    let wanted = match (args.stdout, args.stderr) {
        (true, _) => OutputStreams::Stdout,
        (_, true) => OutputStreams::Stderr,
        (false, false) => OutputStreams::Both,
    };
    let outlet = JobOutlet::new(context.console, wanted)?;
    let following = engine.observe_job(&found.task, request).await?;
    match pass_on(following, &outlet).await? {
        Followed::Done(_) => Ok(Exit::Success),
        Followed::NoReader => Ok(Exit::BrokenPipe),
        Followed::Terminated(signal) => Ok(Exit::Terminated(signal)),
    }
}

/// A job that has ended cannot be slowed down, so nothing of it is passed over.
fn delivery(info: &JobInfo) -> OutputDelivery {
    match info.state {
        JobState::Ended(_) => OutputDelivery::EveryByte,
        JobState::Starting | JobState::Running => OutputDelivery::Lossy,
    }
}

/// Where in a log to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogTail {
    Everything,
    Lines(u64),
    Bytes(u64),
}

/// An offset in each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogOffsets {
    pub(crate) stdout: u64,
    pub(crate) stderr: u64,
}

/// Finds where the end that is wanted begins.
pub(crate) async fn tail_start(
    connection: &Connection,
    info: &JobInfo,
    tail: LogTail,
) -> Result<LogOffsets, CommandFailure> {
    match tail {
        LogTail::Everything => Ok(LogOffsets { stdout: 0, stderr: 0 }),
        LogTail::Bytes(bytes) => Ok(LogOffsets {
            stdout: info.stdout_bytes.saturating_sub(bytes),
            stderr: info.stderr_bytes.saturating_sub(bytes),
        }),
        LogTail::Lines(lines) => last_lines(connection, info, lines).await,
    }
}

/// Looks back further and further until enough lines are seen. Memory is
/// bounded by what is printed afterwards anyway.
async fn last_lines(
    connection: &Connection,
    info: &JobInfo,
    lines: u64,
) -> Result<LogOffsets, CommandFailure> {
    let mut look = FIRST_LOOK;
    loop {
        let from = LogOffsets {
            stdout: info.stdout_bytes.saturating_sub(look),
            stderr: info.stderr_bytes.saturating_sub(look),
        };
        let request = AttachJob {
            id: info.id.clone(),
            stdout_from: from.stdout,
            stderr_from: from.stderr,
            follow: false,
            delivery: delivery(info),
        };
        let mut reading = job::attach(connection, request).await?;
        let mut ends = [LineEnds::new(from.stdout), LineEnds::new(from.stderr)];
        while let Some(event) = reading.next().await? {
            match event {
                JobEvent::Stdout(bytes) => ends[0].take(&bytes),
                JobEvent::Stderr(bytes) => ends[1].take(&bytes),
                JobEvent::Gap { stream, bytes } => {
                    ends[usize::from(stream == vestal_sandbox::Stream::Stderr)].skip(bytes);
                }
                JobEvent::Started { .. } | JobEvent::Ended(_) => {}
            }
        }
        if let [Some(stdout), Some(stderr)] = ends.map(|ends| ends.start_of_last(lines)) {
            return Ok(LogOffsets { stdout, stderr });
        }
        look = look.saturating_mul(2);
    }
}

/// Where the lines of a piece of a log end.
#[derive(Debug)]
struct LineEnds {
    from: u64,
    next: u64,
    /// Offsets just after each end of a line.
    after: Vec<u64>,
}

impl LineEnds {
    fn new(from: u64) -> Self {
        Self { from, next: from, after: Vec::new() }
    }

    fn take(&mut self, bytes: &[u8]) {
        let base = self.next;
        let ends = bytes.iter().zip(base..).filter(|(byte, _)| **byte == b'\n');
        self.after.extend(ends.map(|(_, offset)| offset + 1));
        self.next += bytes.len() as u64;
    }

    fn skip(&mut self, bytes: u64) {
        self.next += bytes;
    }

    /// Returns where the last lines begin; nothing if that is further back. A
    /// line at the very end without an end counts too.
    fn start_of_last(&self, lines: u64) -> Option<u64> {
        if lines == 0 {
            return Some(self.next);
        }
        let lines = usize::try_from(lines).unwrap_or(usize::MAX);
        let complete = self.after.last() == Some(&self.next);
        let back = lines.saturating_add(usize::from(complete));
        match self.after.len().checked_sub(back) {
            Some(index) => Some(self.after[index]),
            None if self.from == 0 => Some(0),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(from: u64, text: &str, lines: u64) -> Option<u64> {
        let mut ends = LineEnds::new(from);
        ends.take(text.as_bytes());
        ends.start_of_last(lines)
    }

    #[test]
    fn the_last_lines_are_found_with_and_without_a_final_end() {
        assert_eq!(start(0, "a\nb\nc\n", 2), Some(2));
        assert_eq!(start(0, "a\nb\nc", 2), Some(2));
        assert_eq!(start(0, "a\nb\nc\n", 9), Some(0));
        assert_eq!(start(0, "", 3), Some(0));
        assert_eq!(start(10, "a\nb\n", 1), Some(12));
        assert_eq!(start(10, "a\nb\n", 2), None, "the line before may begin further back");
        assert_eq!(start(0, "a\nb", 0), Some(3));
    }
}
