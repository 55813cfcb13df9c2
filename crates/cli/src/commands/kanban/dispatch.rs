//! `vestal kanban dispatch`, once and with `--watch`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use tokio::sync::Notify;
use vestal_api::{DispatchEventView, DispatchPlanView};
use vestal_board::dispatch::{Bucket, DispatchPolicy, DispatchResult, Shown};
use vestal_board::{Time, settings};
use vestal_config::ProfileName;
use vestal_dispatcher::{
    DispatchEvent, DispatchMode, Dispatcher, DispatcherOptions, GcPolicy, OpenBoards,
    ProgramLauncher, STOP_TIMEOUTS, WatchLock,
};

use vestal_gateway::DispatcherHost;

use super::board_context::BoardContext;
use super::display;
use crate::console::{Console, DIM, GREEN, RED, YELLOW, json, text};
use crate::error::CommandFailure;
use crate::exit::{self, Exit};

const DISPATCH_HELP: &str = "\
Without --watch, one board is dispatched once: stuck tasks are repaired, scheduled tasks that are
due become ready, and a worker is started for each ready task within the limits. Workers keep
running when this command ends. --dry-run shows what would be done, and changes nothing.

With --watch it runs until Ctrl-C, for all boards or the one that --board names, and reacts to every
change. Any number of dispatchers may watch at the same time.

Examples:
  vestal kanban dispatch --dry-run
  vestal kanban dispatch --watch
  vestal kanban dispatch --max 4 --json | jq -r '.spawned[].task_id'";

/// Start workers for ready tasks.
#[derive(Debug, Default, Args)]
#[command(after_help = DISPATCH_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct DispatchArgs {
    /// Show what would be done, and change nothing.
    #[arg(short = 'n', long, conflicts_with = "watch")]
    dry_run: bool,

    /// Maximum number of running tasks per board, instead of `kanban.max_spawn`.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    max: Option<u32>,

    /// Give up a task after this many failures, instead of `kanban.failure_limit`.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    failure_limit: Option<u32>,

    /// List all tasks, not only the first 100 of each kind.
    #[arg(long, conflicts_with = "watch")]
    all: bool,

    /// Keep dispatching until interrupted.
    #[arg(short, long)]
    watch: bool,

    /// Print a JSON object; with --watch, one per line.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    ctx: &BoardContext<'_>,
    args: &DispatchArgs,
) -> Result<Exit, CommandFailure> {
    let policy = policy(ctx, args)?;
    if args.watch {
        return watch(ctx, policy, args.json).await;
    }
    let default_assignee = policy.default_assignee.as_ref().map(ToString::to_string);
    let mode = if args.dry_run { DispatchMode::DryRun } else { DispatchMode::Real };
    let result = once(ctx, policy, mode).await?;
    if args.json {
        ctx.print(&result)?;
    } else {
        print_result(ctx, &result, default_assignee.as_deref(), mode)?;
    }
    if mode == DispatchMode::DryRun {
        warn_of_missing_models(ctx, &result).await?;
    }
    Ok(Exit::Success)
}

/// Says which of the workers that would be started have no model to ask, and so would fail.
async fn warn_of_missing_models(
    ctx: &BoardContext<'_>,
    result: &DispatchResult,
) -> Result<(), CommandFailure> {
    let Some(board) = ctx.board_if_any().await? else { return Ok(()) };
    let environment = launcher(ctx)?.inherited();
    let mut checked = BTreeSet::new();
    for started in &result.spawned.entries {
        let task = board.read().await?.task(&started.task_id).await?;
        let model = task.and_then(|task| task.model);
        if !checked.insert((started.assignee.clone(), model.clone())) {
            continue;
        }
        let profile = ProfileName::new(&started.assignee)?;
        let settings = ctx.context.settings_of(profile, environment.clone())?;
        let Err(error) = vestal_runtime::endpoints(&settings, model.as_deref()) else { continue };
        let failure = CommandFailure::from(error);
        let why = failure.message().unwrap_or_default();
        let advice = failure.advice().first().map(|advice| format!("; {advice}"));
        let advice = advice.unwrap_or_default();
        let profile = &started.assignee;
        ctx.console().warn(&format!("workers of {profile} would fail: {why}{advice}"));
    }
    Ok(())
}

/// Dispatches one board once. A board that does not exist yet has no tasks.
async fn once(
    ctx: &BoardContext<'_>,
    policy: DispatchPolicy,
    mode: DispatchMode,
) -> Result<DispatchResult, CommandFailure> {
    let Some(board) = ctx.board_if_any().await? else {
        return Ok(DispatchResult::default());
    };
    let console = ctx.console();
    let on_event = move |event: DispatchEvent| match event {
        // The result is printed as a whole at the end.
        DispatchEvent::Started { .. }
        | DispatchEvent::Finished { .. }
        | DispatchEvent::Ended { .. }
        | DispatchEvent::Stopped { .. }
        | DispatchEvent::UnknownProfile { .. }
        | DispatchEvent::Collected { .. } => {}
        event => console.warn(&event.to_string()),
    };
    let dispatcher = Dispatcher::new(options(ctx, policy, None, on_event)?);
    let all = OpenBoards::new(ctx.boards().clone(), None).all().await?;
    let result = dispatcher.tick(&board, &all, mode).await;
    for other in all {
        if let Err(error) = other.close().await {
            tracing::debug!(%error, board = other.slug(), "a board was not closed tidily");
        }
    }
    Ok(result?)
}

/// Says what a dispatcher would do with a board now, as `--dry-run` does.
pub(super) async fn plan_of(ctx: &BoardContext<'_>) -> Result<DispatchPlanView, CommandFailure> {
    let (policy, mut warnings) = configured_policy(ctx)?;
    if let Some(profile) = &policy.default_assignee
        && !ctx.profiles()?.contains(profile)
    {
        warnings.push(format!("there is no profile {profile}, which unassigned tasks go to"));
    }
    let watched = vestal_dispatcher::is_watched(ctx.boards(), ctx.slug());
    let described = described(ctx, &policy);
    let would = once(ctx, policy, DispatchMode::DryRun).await?;
    let titles = BTreeMap::new();
    Ok(DispatchPlanView { policy: described, warnings, watched, would, titles })
}

/// Returns what the settings say a dispatcher goes by, and what is wrong with them.
fn configured_policy(
    ctx: &BoardContext<'_>,
) -> Result<(DispatchPolicy, Vec<String>), CommandFailure> {
    let (mut policy, warnings) = settings::policy(ctx.settings(), ctx.boards().host().clone())?;
    // What becomes of tasks that fail is not up to each profile: every
    // process that notices a failure must do the same.
    policy.failures = settings::failures(&ctx.context.settings_of_default()?)?;
    Ok((policy, warnings))
}

/// Returns what a dispatcher goes by: the settings, and what the command line
/// says in their place. What is wrong with the settings is reported once.
fn policy(ctx: &BoardContext<'_>, args: &DispatchArgs) -> Result<DispatchPolicy, CommandFailure> {
    let (mut policy, warnings) = configured_policy(ctx)?;
    for trouble in warnings {
        ctx.console().warn(&trouble);
    }
    if let Some(profile) = &policy.default_assignee {
        ctx.warn_of_unknown(profile)?;
    }
    if args.max.is_some() {
        policy.caps.board = args.max;
    }
    if let Some(limit) = args.failure_limit {
        let budgets = &mut policy.failures.budgets;
        budgets.crashed = limit;
        budgets.timed_out = limit;
        budgets.spawn_failed = limit;
        budgets.no_report = limit;
        budgets.stale = limit;
        budgets.terminated = limit;
        budgets.reclaimed = limit;
    }
    if args.all {
        policy.shown = Shown::All;
    }
    Ok(policy)
}

/// Returns the dispatcher of all boards, as `--watch` has it, for a gateway to host. What happens
/// goes into the log.
pub(super) fn hosted(ctx: &BoardContext<'_>) -> Result<DispatcherHost, CommandFailure> {
    let policy = policy(ctx, &DispatchArgs::default())?;
    let retention = GcPolicy::from_settings(ctx.settings())?;
    let on_event = |event: DispatchEvent| match event {
        DispatchEvent::NotStarted { .. }
        | DispatchEvent::Survived { .. }
        | DispatchEvent::Problem { .. } => tracing::warn!("{event}"),
        event => tracing::info!("{event}"),
    };
    let boards = ctx.boards().clone();
    Ok(DispatcherHost {
        dispatcher: Dispatcher::new(options(ctx, policy, Some(retention), on_event)?),
        boards: OpenBoards::new(boards.clone(), None),
        watch_lock: Box::new(move || WatchLock::take(&boards, None)),
    })
}

fn options(
    ctx: &BoardContext<'_>,
    policy: DispatchPolicy,
    retention: Option<GcPolicy>,
    on_event: impl Fn(DispatchEvent) + Send + Sync + 'static,
) -> Result<DispatcherOptions, CommandFailure> {
    let home = ctx.context.home()?;
    let launcher = launcher(ctx)?;
    let profiles =
        move || -> BTreeSet<String> { home.profiles().iter().map(ToString::to_string).collect() };
    Ok(DispatcherOptions {
        lock: vestal_dispatcher::host_lock_path(ctx.boards()),
        policy,
        room: vestal_dispatcher::memory_room(ctx.settings())?,
        launcher: Arc::new(launcher),
        profiles: Arc::new(profiles),
        environment: ctx.context.environment().clone(),
        timeouts: STOP_TIMEOUTS,
        interval: settings::dispatch_interval(ctx.settings())?,
        retention,
        on_event: Arc::new(on_event),
    })
}

/// Returns what starts workers: this program.
pub(super) fn launcher(ctx: &BoardContext<'_>) -> Result<ProgramLauncher, CommandFailure> {
    let program = std::env::current_exe()
        .map_err(|error| CommandFailure::io("find the path of this program", &error))?;
    let mut passthrough = settings::env_passthrough(ctx.settings())?;
    passthrough.extend(vestal_api::inherited_variables());
    Ok(ProgramLauncher {
        program,
        root: ctx.context.home()?.root().to_owned(),
        environment: ctx.context.environment().clone(),
        passthrough,
        log: settings::worker_log(ctx.settings())?,
    })
}

fn print_result(
    ctx: &BoardContext<'_>,
    result: &DispatchResult,
    default_assignee: Option<&str>,
    mode: DispatchMode,
) -> Result<(), CommandFailure> {
    let console = ctx.console();
    if result.skipped_locked {
        console.note("another dispatcher of this host is at work; nothing was done");
        return Ok(());
    }
    let counter = |name: &str, count: u64, names: &str| {
        let name = format!("{:<14}", format!("{name}:"));
        console.print(format!("{name}{count}  {}", console.paint(DIM, names)).trim_end())
    };
    counter("Reclaimed", result.reclaimed, "")?;
    for (name, bucket) in [
        ("Crashed", &result.crashed),
        ("No report", &result.no_report),
        ("Timed out", &result.timed_out),
        ("Stale", &result.stale),
        ("Rate limited", &result.rate_limited),
        ("Auto-blocked", &result.auto_blocked),
    ] {
        counter(name, bucket.count, &listed(bucket, ToString::to_string))?;
    }
    counter("Promoted", result.promoted, "")?;
    let started = match mode {
        DispatchMode::Real => "Spawned",
        DispatchMode::DryRun => "Would start",
    };
    counter(started, result.spawned.count, "")?;
    for started in &result.spawned.entries {
        let place = match (mode, started.workspace.as_str()) {
            (DispatchMode::DryRun, _) => "- (dry)".to_owned(),
            (DispatchMode::Real, "") => "-".to_owned(),
            (DispatchMode::Real, place) => text::printable(place),
        };
        let name = console.paint(GREEN, &started.assignee);
        console.print(&format!("  - {}  ->  {name}  @ {place}", started.task_id))?;
    }
    print_more(ctx, &result.spawned)?;
    print_waiting(ctx, result, default_assignee)
}

/// Prints what was left for later, and why.
fn print_waiting(
    ctx: &BoardContext<'_>,
    result: &DispatchResult,
    default_assignee: Option<&str>,
) -> Result<(), CommandFailure> {
    let console = ctx.console();
    let line = |what: &str, names: &str| {
        console.print(&format!("{}: {names}", console.paint(YELLOW, what)))
    };
    let named = |what: &str, bucket: &Bucket<_>| {
        if bucket.is_empty() { Ok(()) } else { line(what, &listed(bucket, ToString::to_string)) }
    };
    let assigned =
        format!("Auto-assigned to kanban.default_assignee='{}'", default_assignee.unwrap_or("-"));
    named(&assigned, &result.auto_assigned_default)?;
    named("Skipped (unassigned)", &result.skipped_unassigned)?;
    named("Skipped (no such profile; to be claimed by hand)", &result.skipped_nonspawnable)?;
    named("Skipped (its directory is in use by another task)", &result.skipped_workspace_busy)?;
    named("Skipped (its directory is on another host)", &result.skipped_other_host)?;
    let mut capped: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (task, profile, running) in &result.skipped_per_profile_capped.entries {
        let why = format!("Deferred ({profile} at per-profile cap, {running} running)");
        capped.entry(why).or_default().push(task.to_string());
    }
    for held in &result.skipped_capped.entries {
        let why = format!("Deferred ({} cap reached, {} running)", held.by, held.current);
        capped.entry(why).or_default().push(held.task_id.to_string());
    }
    for (why, tasks) in &capped {
        line(why, &tasks.join(", "))?;
    }
    print_more(ctx, &result.skipped_per_profile_capped)?;
    print_more(ctx, &result.skipped_capped)?;
    let mut guarded: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for held in &result.respawn_guarded.entries {
        let when = format!("{} ({})", held.task_id, display::ago(held.until));
        guarded.entry(&held.reason).or_default().push(when);
    }
    for (reason, tasks) in &guarded {
        line(&format!("Waiting ({reason})"), &tasks.join(", "))?;
    }
    print_more(ctx, &result.respawn_guarded)
}

/// Returns the entries of a bucket, and how many more there are.
fn listed<T>(bucket: &Bucket<T>, shown: impl Fn(&T) -> String) -> String {
    let mut names = bucket.entries.iter().map(shown).collect::<Vec<_>>().join(", ");
    let more = bucket.count.saturating_sub(bucket.entries.len() as u64);
    if more > 0 {
        // Writing to a string cannot fail.
        write!(names, " and {more} more").ok();
    }
    names
}

fn print_more<T>(ctx: &BoardContext<'_>, bucket: &Bucket<T>) -> Result<(), CommandFailure> {
    match bucket.count.saturating_sub(bucket.entries.len() as u64) {
        0 => Ok(()),
        more => ctx.console().print(&format!("  … and {more} more (--all lists them)")),
    }
}

/// Dispatches until a signal comes or the reader of the events is gone.
async fn watch(
    ctx: &BoardContext<'_>,
    policy: DispatchPolicy,
    json: bool,
) -> Result<Exit, CommandFailure> {
    let mut signals = exit::listen_or_fail()?;
    let only = ctx.is_named().then(|| ctx.slug().clone());
    let _watching = WatchLock::take(ctx.boards(), only.as_ref())?;
    let boards = OpenBoards::new(ctx.boards().clone(), only);
    let printer = Printer::new(ctx.console(), json);
    printer.begin(&described(ctx, &policy))?;
    let event_printer = printer.clone();
    let on_event = move |event: DispatchEvent| event_printer.on_event(&event);
    let retention = GcPolicy::from_settings(ctx.settings())?;
    let dispatcher = Dispatcher::new(options(ctx, policy, Some(retention), on_event)?);
    let mut signal = None;
    let shutdown = async {
        tokio::select! {
            came = signals.next() => signal = Some(came),
            () = printer.unheard() => {}
        }
    };
    dispatcher.watch(&boards, shutdown).await?;
    match (signal, printer.failure()) {
        (Some(signal), _) => {
            if !json {
                ctx.console().note("running workers continue; no more are started");
            }
            Ok(Exit::Terminated(signal))
        }
        (None, Some(failure)) => Err(failure),
        (None, None) => Ok(Exit::Success),
    }
}

/// Returns what is dispatched, with what.
fn described(ctx: &BoardContext<'_>, policy: &DispatchPolicy) -> String {
    let what =
        if ctx.is_named() { format!("board {}", ctx.slug()) } else { "all boards".to_owned() };
    let mut text = format!("dispatching {what} as host {}", policy.host.name);
    let caps = [
        ("in all", policy.caps.global),
        ("on this host", policy.caps.host),
        ("per board", policy.caps.board),
        ("per profile", policy.caps.profile),
        ("per tenant", policy.caps.tenant),
    ];
    let caps: Vec<String> =
        caps.iter().filter_map(|(what, cap)| cap.map(|cap| format!("{cap} {what}"))).collect();
    let caps =
        if caps.is_empty() { "no caps".to_owned() } else { format!("at most {}", caps.join(", ")) };
    // Writing to a string cannot fail.
    write!(text, "; {caps}").ok();
    match &policy.default_assignee {
        Some(profile) => write!(text, "; unassigned tasks go to {profile}").ok(),
        None => write!(text, "; unassigned tasks wait").ok(),
    };
    text
}

/// Prints the events of a dispatcher until the reader is gone.
#[derive(Clone)]
struct Printer {
    console: Console,
    json: bool,
    unheard: Arc<Notify>,
    failure: Arc<Mutex<Option<CommandFailure>>>,
}

impl Printer {
    fn new(console: Console, json: bool) -> Self {
        Self { console, json, unheard: Arc::default(), failure: Arc::default() }
    }

    fn begin(&self, what: &str) -> Result<(), CommandFailure> {
        if self.json {
            let at = Time::now().seconds();
            return self.print_json(&DispatchEventView::Begun { at, what: what.to_owned() });
        }
        self.console.print(&format!("{}  {what}", self.clock()))
    }

    fn print_json(&self, event: &DispatchEventView) -> Result<(), CommandFailure> {
        self.console.write(&json::line(&event.sorted().map_err(|error| json::unwritable(&error))?)?)
    }

    fn clock(&self) -> String {
        self.console.paint(DIM, &display::clock(Time::now()))
    }

    fn on_event(&self, event: &DispatchEvent) {
        let printed = if self.json {
            self.print_json(&DispatchEventView::new(event, Time::now()))
        } else {
            let style = match event {
                DispatchEvent::Started { .. } | DispatchEvent::Finished { .. } => GREEN,
                DispatchEvent::Ended { .. }
                | DispatchEvent::Stopped { .. }
                | DispatchEvent::UnknownProfile { .. } => YELLOW,
                DispatchEvent::NotStarted { .. }
                | DispatchEvent::Survived { .. }
                | DispatchEvent::Problem { .. } => RED,
                DispatchEvent::Collected { .. } | DispatchEvent::KeptTree { .. } => DIM,
            };
            let words = self.console.paint(style, &text::printable(&event.to_string()));
            self.console.print(&format!("{}  {words}", self.clock()))
        };
        if let Err(failure) = printed {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            self.unheard.notify_one();
        }
    }

    /// Waits until the reader is gone.
    async fn unheard(&self) {
        self.unheard.notified().await;
    }

    fn failure(&self) -> Option<CommandFailure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
