//! `vestal cron`: its verbs, and what they share.

mod change;
mod read;
mod run;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use vestal_api::SchedulesRunner;
use vestal_schedules::{
    Error, Schedule, ScheduleId, ScheduleStore, ScheduleTiming, Zone, store_path,
};

use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The gateway of the profile runs what is due (`vestal gateway start`). ID is the id of a schedule, a
unique beginning of it, or its name. The exit code is 1 if no schedule matches, or more than one.

Examples:
  vestal cron create '0 9 * * 1-5' 'summarise what changed in /workspace since yesterday'
  vestal cron create 'every 2h' 'check the mirrors' --missed skip
  vestal cron create 'at 2026-12-24T18:00' 'say merry christmas' --tz Europe/Berlin
  vestal cron list
  vestal cron runs c_4x7k --output";

/// Ask the agent something on a schedule.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CronArgs {
    #[command(subcommand)]
    verb: CronVerb,
}

#[derive(Debug, Subcommand)]
enum CronVerb {
    Create(change::CreateArgs),
    List(read::ListArgs),
    Show(read::ShowArgs),
    Edit(change::EditArgs),
    Pause(change::PauseArgs),
    Resume(change::ResumeArgs),
    Run(run::RunArgs),
    Remove(change::RemoveArgs),
    Runs(read::RunsArgs),
    Status(read::StatusArgs),
}

pub(crate) async fn run(context: &Context, args: CronArgs) -> Result<Exit, CommandFailure> {
    let path = store_path(&context.home()?.dir());
    // Looking makes no file.
    let store = match &args.verb {
        CronVerb::Create(_) => Some(ScheduleStore::open(path).await?),
        _ => ScheduleStore::open_existing(path).await?,
    };
    let done = match (args.verb, &store) {
        (CronVerb::Create(args), Some(store)) => change::create(context, store, args).await,
        (CronVerb::Create(_), None) => Ok(Exit::Success),
        (CronVerb::List(args), store) => read::list(context, store.as_ref(), &args).await,
        (CronVerb::Show(args), store) => read::show(context, store.as_ref(), &args).await,
        (CronVerb::Edit(args), store) => change::edit(context, store.as_ref(), args).await,
        (CronVerb::Pause(args), store) => change::pause(context, store.as_ref(), &args).await,
        (CronVerb::Resume(args), store) => change::resume(context, store.as_ref(), &args).await,
        (CronVerb::Run(args), store) => Box::pin(run::run(context, store.as_ref(), &args)).await,
        (CronVerb::Remove(args), store) => change::remove(context, store.as_ref(), &args).await,
        (CronVerb::Runs(args), store) => read::runs(context, store.as_ref(), &args).await,
        (CronVerb::Status(args), store) => read::status(context, store.as_ref(), &args).await,
    };
    if let Some(store) = store
        && let Err(error) = store.close().await
    {
        // All that was written is safe in the log.
        tracing::debug!(%error, "the schedules were not closed tidily");
    }
    done
}

/// Finds the schedule that is meant.
async fn find<'s>(
    store: Option<&'s ScheduleStore>,
    wanted: &str,
) -> Result<(&'s ScheduleStore, ScheduleId), CommandFailure> {
    let Some(store) = store else {
        return Err(Error::NotFound { wanted: wanted.to_owned() }.into());
    };
    Ok((store, store.find(wanted).await?))
}

/// Returns the ids of all schedules, for completion.
pub(super) async fn schedule_names(context: &Context) -> Result<Vec<String>, CommandFailure> {
    let path = store_path(&context.home()?.dir());
    let Some(store) = ScheduleStore::open_existing(path).await? else { return Ok(Vec::new()) };
    let all = store.list().await?;
    Ok(all.into_iter().filter_map(Result::ok).map(|schedule| schedule.id.to_string()).collect())
}

/// Returns who runs the schedules of the profile.
async fn runner(context: &Context) -> Result<SchedulesRunner, CommandFailure> {
    let home = context.home()?;
    Ok(vestal_gateway::schedules_runner(&home.dir(), home.profile().as_str()).await)
}

/// Says that nothing will run the schedules, if that is so.
async fn warn_without_runner(context: &Context) -> Result<(), CommandFailure> {
    if let Some(reason) = runner(context).await?.reason {
        context.console.warn(&format!("nothing runs schedules now: {reason}"));
    }
    Ok(())
}

/// Says when a schedule is due: a moment as the clock on this machine's wall shows it, and what is by
/// the clock of another time zone with that zone.
fn timing(schedule: &Schedule) -> String {
    match &schedule.timing {
        ScheduleTiming::Instant(at) => format!("at {}", local(*at)),
        ScheduleTiming::Every { .. } => schedule.timing.to_string(),
        ScheduleTiming::Cron(_) | ScheduleTiming::At(_) => {
            let zone = schedule.zone.name();
            let is_own = zone == Zone::system().name();
            if is_own { schedule.timing.to_string() } else { format!("{} {zone}", schedule.timing) }
        }
    }
}

/// Returns a moment as the clock on this machine shows it.
fn local(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%a %Y-%m-%d %H:%M %Z").to_string()
}
