//! `vestal cron create`, `edit`, `pause`, `resume` and `remove`.

use std::io::Read as _;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use vestal_api::{ScheduleRequest, ScheduleView};
use vestal_runtime::ProfileSchedules;
use vestal_schedules::{MissedPolicy, Schedule, ScheduleStore};

use super::{find, local, warn_without_runner};
use crate::confirm;
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// The longest prompt that is read from standard input.
const MAX_INPUT: u64 = 1 << 20;

/// Next moments that are shown.
const SHOWN: usize = 3;

const CREATE_HELP: &str = "\
SCHEDULE is a cron expression of five fields (minute hour day month weekday; names, ranges, lists and
steps), an interval of elapsed time (every 30m, every 2h, every 1d), or one moment (at
2026-12-24T18:00, in 20m). Times are local times in the time zone of --tz, else of this
machine. A time that a change of the clock skips runs at the next existing time; one that occurs twice
runs once. PROMPT is what the agent is asked, in a new conversation each time; - reads it from
standard input. A run cannot ask for approval: approvals.cron_mode decides about dangerous commands
(deny).

Examples:
  vestal cron create '0 9 * * 1-5' 'summarise what changed in /workspace since yesterday'
  vestal cron create 'every 2h' 'are all mirrors up to date?' --script 'cat mirrors.txt' -t web
  vestal cron create '30 7 * * mon' - --name weekly --deliver conversation:k3f9ab < prompt.md";

/// Create a schedule.
#[derive(Debug, Args)]
#[command(after_help = CREATE_HELP)]
pub(super) struct CreateArgs {
    /// When it is due.
    #[arg(value_name = "SCHEDULE")]
    schedule: String,

    /// What the agent is asked; `-` reads it from standard input.
    #[arg(value_name = "PROMPT")]
    prompt: String,

    #[command(flatten)]
    options: ScheduleOptions,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// What `create` and `edit` take.
#[derive(Debug, Args)]
struct ScheduleOptions {
    /// Name [default: how the prompt begins].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Time zone, such as Europe/Berlin [default: that of this machine].
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,

    /// Skill whose instructions the agent is given; repeatable.
    #[arg(long = "skill", value_name = "SKILL")]
    skills: Vec<String>,

    /// Model to use instead of the configured one: `MODEL` or `PROVIDER:MODEL`.
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,

    /// Toolsets to use instead of the configured ones, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    toolsets: Option<Vec<String>>,

    /// Task whose sandbox it works in [default: default].
    #[arg(short, long, value_name = "TASK")]
    task: Option<vestal_sandbox::TaskName>,

    /// Directory of the sandbox to begin in.
    #[arg(long, value_name = "DIR")]
    workdir: Option<String>,

    /// Shell text to run in the sandbox first; what it prints is added to the prompt, and a run whose
    /// script fails has failed.
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true)]
    script: Option<String>,

    /// Where the output goes: `local` (kept with the run only), or `conversation:ID`.
    #[arg(long, value_name = "TARGET")]
    deliver: Option<String>,

    /// What happens to moments at which no gateway was running [default: run].
    #[arg(long, value_name = "WHAT")]
    missed: Option<MissedArg>,
}

/// What happens to moments that were missed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum MissedArg {
    /// One run makes up for them.
    Run,
    /// They are reported only.
    Skip,
}

impl From<MissedArg> for MissedPolicy {
    fn from(missed: MissedArg) -> Self {
        match missed {
            MissedArg::Run => Self::Run,
            MissedArg::Skip => Self::Skip,
        }
    }
}

impl ScheduleOptions {
    /// Returns what is asked. An empty value goes back to the default.
    fn request(self) -> ScheduleRequest {
        let or_default = |text: String| Some(text).filter(|text| !text.is_empty());
        let skills: Vec<String> =
            self.skills.iter().filter(|name| !name.is_empty()).cloned().collect();
        let toolsets = self.toolsets.map(|names| {
            let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
            Some(names).filter(|names| !names.is_empty())
        });
        ScheduleRequest {
            name: self.name,
            schedule: None,
            timezone: self.tz,
            prompt: None,
            skills: (!self.skills.is_empty()).then_some(skills),
            model: self.model.map(or_default),
            toolsets,
            task: self.task.map(|task| task.to_string()),
            workdir: self.workdir.map(or_default),
            script: self.script.map(or_default),
            deliver: self.deliver,
            missed: self.missed.map(Into::into),
        }
    }
}

pub(super) async fn create(
    context: &Context,
    store: &ScheduleStore,
    args: CreateArgs,
) -> Result<Exit, CommandFailure> {
    let request = ScheduleRequest {
        schedule: Some(args.schedule),
        prompt: Some(prompt(args.prompt)?),
        ..args.options.request()
    };
    let now = Timestamp::now();
    let schedules = ProfileSchedules::new(&Arc::new(context.settings()?));
    let created = schedules.create(store, request, now).await?;
    if args.json {
        context.console.print_json(&ScheduleView::new(&created, now))?;
    } else {
        context.console.print(created.id.as_str())?;
        print_upcoming(context, &created, now);
    }
    warn_without_runner(context).await?;
    Ok(Exit::Success)
}

/// Says when a schedule is due next.
fn print_upcoming(context: &Context, schedule: &Schedule, now: Timestamp) {
    let upcoming = schedule.upcoming(now, SHOWN);
    if upcoming.is_empty() {
        return;
    }
    let moments: Vec<String> = upcoming.into_iter().map(local).collect();
    context.console.note(&format!("runs at {}", moments.join(", ")));
}

fn prompt(given: String) -> Result<String, CommandFailure> {
    if given != "-" {
        return Ok(given);
    }
    let mut text = String::new();
    let read = std::io::stdin().lock().take(MAX_INPUT).read_to_string(&mut text);
    read.map_err(|error| CommandFailure::io("read the prompt from standard input", &error))?;
    Ok(text)
}

const EDIT_HELP: &str = "\
Options that are not given keep their values. A new time or time zone counts from now, and a schedule whose one moment has
passed is due again with a new one. An empty value goes back to the default, as in --model ''.

Examples:
  vestal cron edit c_4x7k --schedule '0 8 * * 1-5'
  vestal cron edit weekly --prompt - --model '' < prompt.md";

/// Change a schedule.
#[derive(Debug, Args)]
#[command(after_help = EDIT_HELP)]
pub(super) struct EditArgs {
    /// Schedule id, a unique beginning of it, or its name.
    #[arg(value_name = "ID")]
    id: String,

    /// When it is due.
    #[arg(long, value_name = "SCHEDULE")]
    schedule: Option<String>,

    /// What the agent is asked; `-` reads it from standard input.
    #[arg(long, value_name = "PROMPT", allow_hyphen_values = true)]
    prompt: Option<String>,

    #[command(flatten)]
    options: ScheduleOptions,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn edit(
    context: &Context,
    store: Option<&ScheduleStore>,
    args: EditArgs,
) -> Result<Exit, CommandFailure> {
    let (store, id) = find(store, &args.id).await?;
    let request = ScheduleRequest {
        schedule: args.schedule,
        prompt: args.prompt.map(prompt).transpose()?,
        ..args.options.request()
    };
    if request == ScheduleRequest::default() {
        return Err(CommandFailure::usage("nothing to change was named")
            .advise("as in: vestal cron edit ID --schedule '0 8 * * *'"));
    }
    let now = Timestamp::now();
    let schedules = ProfileSchedules::new(&Arc::new(context.settings()?));
    let edited = schedules.edit(store, &id, request, now).await?;
    if args.json {
        context.console.print_json(&ScheduleView::new(&edited, now))?;
    } else {
        context.console.print(&format!("changed {}", described(&edited)))?;
        print_upcoming(context, &edited, now);
    }
    Ok(Exit::Success)
}

/// Returns a schedule in a few words.
fn described(schedule: &Schedule) -> String {
    format!("{} ({})", schedule.id, text::printable(&schedule.name))
}

const PAUSE_HELP: &str = "\
A run in progress continues. What is due while a schedule is paused is not missed.

Example:
  vestal cron pause c_4x7k weekly";

/// Pause schedules until they are resumed.
#[derive(Debug, Args)]
#[command(after_help = PAUSE_HELP)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    which: ChosenSchedules,
}

const RESUME_HELP: &str = "\
The next run is at the first moment from now on.

Example:
  vestal cron resume c_4x7k";

/// Resume paused schedules.
#[derive(Debug, Args)]
#[command(after_help = RESUME_HELP)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    which: ChosenSchedules,
}

/// The schedules that a command is about.
#[derive(Debug, Args)]
struct ChosenSchedules {
    /// Schedule ids, unique beginnings of them, or names.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

impl ChosenSchedules {
    /// Finds all of them before anything is done: a mistyped name changes nothing.
    async fn find<'s>(
        &self,
        store: Option<&'s ScheduleStore>,
    ) -> Result<Vec<(&'s ScheduleStore, Schedule)>, CommandFailure> {
        let mut found: Vec<(&ScheduleStore, Schedule)> = Vec::new();
        for wanted in &self.ids {
            let (store, id) = find(store, wanted).await?;
            if found.iter().all(|(_, known)| known.id != id) {
                found.push((store, store.get(&id).await?));
            }
        }
        Ok(found)
    }
}

pub(super) async fn pause(
    context: &Context,
    store: Option<&ScheduleStore>,
    args: &PauseArgs,
) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    let mut paused = Vec::new();
    for (store, schedule) in args.which.find(store).await? {
        paused.push(store.pause(&schedule.id, now).await?);
    }
    if !args.which.json {
        for schedule in &paused {
            let word = schedule.state.word();
            context.console.print(&format!("{} is {word}", described(schedule)))?;
        }
    }
    finish(context, args.which.json, &paused, now)
}

pub(super) async fn resume(
    context: &Context,
    store: Option<&ScheduleStore>,
    args: &ResumeArgs,
) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    let mut resumed = Vec::new();
    for (store, schedule) in args.which.find(store).await? {
        resumed.push(store.resume(&schedule.id, now).await?);
    }
    if !args.which.json {
        for schedule in &resumed {
            let next = schedule.next_at.map(local).unwrap_or_default();
            context.console.print(&format!("{} runs next at {next}", described(schedule)))?;
        }
    }
    warn_without_runner(context).await?;
    finish(context, args.which.json, &resumed, now)
}

const REMOVE_HELP: &str = "\
Removes schedules with the records of their runs; the conversations of the runs stay. Asks for
confirmation on a terminal; without a terminal, -y is required. A run in progress continues.

Example:
  vestal cron remove -y c_4x7k";

/// Remove schedules.
#[derive(Debug, Args)]
#[command(after_help = REMOVE_HELP, visible_alias = "rm")]
pub(super) struct RemoveArgs {
    #[command(flatten)]
    which: ChosenSchedules,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,
}

pub(super) async fn remove(
    context: &Context,
    store: Option<&ScheduleStore>,
    args: &RemoveArgs,
) -> Result<Exit, CommandFailure> {
    let found = args.which.find(store).await?;
    let plan = |(_, schedule): &(&ScheduleStore, Schedule)| {
        let runs = text::count(schedule.runs, "run");
        format!("{} will be removed with the records of {runs}", described(schedule))
    };
    if !args.yes {
        let plans: Vec<String> = found.iter().map(plan).collect();
        if !confirm::is_confirmed(context.console, "remove", "Remove?", &plans)? {
            context.console.note("nothing was removed");
            return Ok(Exit::No);
        }
    }
    let mut removed = Vec::new();
    for (store, schedule) in found {
        removed.push(store.remove(&schedule.id).await?);
    }
    if !args.which.json {
        for schedule in &removed {
            context.console.print(&format!("removed {}", described(schedule)))?;
        }
    }
    finish(context, args.which.json, &removed, Timestamp::now())
}

fn finish(
    context: &Context,
    json: bool,
    schedules: &[Schedule],
    now: Timestamp,
) -> Result<Exit, CommandFailure> {
    if json {
        let views: Vec<ScheduleView> =
            schedules.iter().map(|schedule| ScheduleView::new(schedule, now)).collect();
        context.console.print_json(&views)?;
    }
    Ok(Exit::Success)
}
