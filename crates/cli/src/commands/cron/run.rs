//! `vestal cron run`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use clap::Args;
use jiff::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use vestal_agent::{EventSink, TurnEvent};
use vestal_api::ScheduleRunView;
use vestal_runtime::{Runtime, Termination};
use vestal_schedules::{
    Delivered, DeliveryError, Executor, RunJob, RunOutcome, RunOwner, RunReport, Schedule,
    ScheduleClock, ScheduleRun, ScheduleRunId, ScheduleStore, keys, run_claimed,
};

use super::{find, runner};
use crate::agent;
use crate::console::{Console, Sink, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::{self, Exit};

const RUN_HELP: &str = "\
Runs the schedule in this process and shows what the agent says; the run is recorded like any other,
and its next moment stays as it is. --background leaves it to the gateway and returns at once. A
schedule that is in progress is refused.

Exit codes: 0 the agent answered, 1 it did not, or the schedule is in progress, 124 it took longer
than cron.timeout_seconds, 130 interrupted.

Examples:
  vestal cron run c_4x7k
  vestal cron run weekly --background";

/// Run a schedule now.
#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(super) struct RunArgs {
    /// Schedule id, a unique beginning of it, or its name.
    #[arg(value_name = "ID")]
    id: String,

    /// Have the gateway run it.
    #[arg(long)]
    background: bool,

    /// Print the run as a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    context: &Context,
    store: Option<&ScheduleStore>,
    args: &RunArgs,
) -> Result<Exit, CommandFailure> {
    let (store, id) = find(store, &args.id).await?;
    if args.background {
        if let Some(reason) = runner(context).await?.reason {
            return Err(CommandFailure::new("no gateway is running to run it in the background")
                .advise(reason)
                .advise("to run it here: the same command without --background")
                .with_exit(Exit::No));
        }
        let asked = store.request(&id, Timestamp::now()).await?;
        if args.json {
            context.console.print_json(&ScheduleRunView::from(&asked))?;
        } else {
            context.console.print(&format!("run {}", asked.id))?;
            context.console.note(&format!("to see it: vestal cron runs {id}"));
        }
        return Ok(Exit::Success);
    }
    let (report, run) = in_foreground(context, store, &id, args.json).await?;
    if args.json {
        context.console.print_json(&ScheduleRunView::from(&store.run(run).await?))?;
    }
    Ok(conclude(context, &report))
}

/// Says how a run ended.
fn conclude(context: &Context, report: &RunReport) -> Exit {
    let exit = match report.outcome {
        RunOutcome::Succeeded => return Exit::Success,
        RunOutcome::Failed => Exit::No,
        RunOutcome::TimedOut => Exit::TimedOut,
        RunOutcome::Interrupted => Exit::Terminated(Termination::Interrupt),
    };
    let why = report.error.clone().unwrap_or_else(|| "the run did not succeed".to_owned());
    context.console.explain(&CommandFailure::new(why).with_exit(exit));
    exit
}

async fn in_foreground(
    context: &Context,
    store: &ScheduleStore,
    id: &vestal_schedules::ScheduleId,
    is_silent: bool,
) -> Result<(RunReport, ScheduleRunId), CommandFailure> {
    let settings = context.settings()?;
    let timeout = settings.get(&keys::CRON_TIMEOUT_SECONDS)?.value.duration();
    let mut signals = exit::listen_or_fail()?;
    let runtime = agent::build(context, &settings, &[]).await?;
    let engine = runtime.agent().engine().clone();
    let owner = RunOwner::current()?;
    let (schedule, run) = store.begin(id, &owner, Timestamp::now()).await?;
    let (events, received) = unbounded_channel();
    let executor = Arc::new(Foreground { runtime: runtime.clone(), events });
    let stop = CancellationToken::new();
    let clock = ScheduleClock::system();
    let shared: Arc<dyn Executor> = Arc::clone(&executor) as _;
    let mut running =
        Box::pin(run_claimed(store, shared, schedule, run, timeout, stop.clone(), &clock));
    let ended = CancellationToken::new();
    let mut shown = Box::pin(show(context.console, received, is_silent, ended.clone()));
    let mut is_shown = false;
    let report = loop {
        tokio::select! {
            biased;
            _ = signals.next() => {
                if stop.is_cancelled() {
                    // The next process finds the run as lost.
                    return Err(CommandFailure::new("left before the run had ended")
                        .with_exit(Exit::Terminated(Termination::Interrupt)));
                }
                stop.cancel();
            }
            result = &mut shown, if !is_shown => {
                is_shown = true;
                if result.is_err() {
                    stop.cancel();
                }
            }
            report = &mut running => break report,
        }
    };
    drop(running);
    deliver(store, &executor, &owner, run).await?;
    ended.cancel();
    if !is_shown {
        shown.await?;
    }
    context.finish(&engine).await;
    runtime.close().await;
    Ok((report, run))
}

/// Delivers the output of the run, unless a gateway was faster.
async fn deliver(
    store: &ScheduleStore,
    executor: &Foreground,
    owner: &RunOwner,
    run: ScheduleRunId,
) -> Result<(), CommandFailure> {
    let is_own = |other: ScheduleRunId| other == run;
    for (schedule, run) in store.take_deliveries(owner, Timestamp::now(), is_own).await? {
        match executor.deliver(&schedule, &run).await {
            Ok(()) => store.delivered(run.id, Delivered::Done, None).await?,
            Err(DeliveryError::Busy(why)) => {
                store.delivered(run.id, Delivered::Pending, Some(&why)).await?;
            }
            Err(DeliveryError::Failed(why)) => {
                store.delivered(run.id, Delivered::Failed, Some(&why)).await?;
            }
        }
    }
    Ok(())
}

/// Runs a schedule in this process.
struct Foreground {
    runtime: Runtime,
    events: UnboundedSender<TurnEvent>,
}

#[async_trait]
impl Executor for Foreground {
    async fn execute(&self, job: RunJob, stop: CancellationToken) -> RunReport {
        let events = self.events.clone();
        let sink = EventSink::new(move |event| {
            event.log();
            // The receiver is gone when the run is no longer shown.
            drop(events.send(event));
        });
        Box::pin(vestal_gateway::run_schedule(&self.runtime, &job, &sink, &stop)).await
    }

    async fn deliver(&self, schedule: &Schedule, run: &ScheduleRun) -> Result<(), DeliveryError> {
        vestal_gateway::deliver_output(&self.runtime, schedule, run).await
    }
}

/// Shows what the agent says as it comes, and in lines on standard error what it does, until the run
/// has ended.
async fn show(
    console: Console,
    mut events: UnboundedReceiver<TurnEvent>,
    is_silent: bool,
    ended: CancellationToken,
) -> Result<(), CommandFailure> {
    let out = Sink::stdout().map_err(|error| CommandFailure::output(&error))?;
    let write = async |text: String| {
        out.write(Bytes::from(text)).await.map_err(|error| CommandFailure::output(&error))
    };
    let mut is_within_line = false;
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            // Earlier messages are in the queue, which is asked first.
            () = ended.cancelled() => None,
        };
        let Some(event) = event else { break };
        if is_silent {
            continue;
        }
        match event {
            TurnEvent::Text { text } if !text.is_empty() => {
                let shown = text::harmless(&text);
                is_within_line = !shown.ends_with('\n');
                write(shown).await?;
                continue;
            }
            TurnEvent::ModelCalled { .. }
            | TurnEvent::ToolEnded { .. }
            | TurnEvent::Warning { .. }
                if is_within_line =>
            {
                is_within_line = false;
                write("\n".to_owned()).await?;
            }
            _ => {}
        }
        match event {
            TurnEvent::ToolEnded { name, is_error, took, .. } => {
                let mark = if is_error { "✗" } else { "·" };
                console.aside(&format!("{mark} {name} ({})", text::took(took)));
            }
            TurnEvent::Warning { text } => console.warn(&text),
            _ => {}
        }
    }
    if is_within_line {
        write("\n".to_owned()).await?;
    }
    Ok(())
}
