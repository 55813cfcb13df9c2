//! Where a board is and how it is doing: `init`, `stats` and `diagnostics`; and `gc`, which removes what is no longer needed.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use vestal_api::{BoardPlaceView, CollectedView};
use vestal_board::verbs::{BoardStats, Severity, TaskFinding, Thresholds};
use vestal_board::{Status, Time, settings};
use vestal_dispatcher::{CollectedLeftovers, GcPolicy};

use super::board_context::BoardContext;
use super::{dispatch, display};
use crate::console::{Cell, DIM, RED, Table, YELLOW, text};
use crate::error::CommandFailure;
use crate::exit::Exit;

const INIT_HELP: &str = "\
Boards are created when they are first used; this changes nothing.

Example:
  vestal kanban init";

/// Print where the board is stored. Boards need no preparation.
#[derive(Debug, Args)]
#[command(after_help = INIT_HELP)]
pub(super) struct InitArgs {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn init(ctx: &BoardContext<'_>, args: &InitArgs) -> Result<Exit, CommandFailure> {
    let dir = ctx.dir();
    let view = BoardPlaceView {
        board: ctx.slug().to_string(),
        path: dir.display().to_string(),
        exists: dir.is_dir(),
        profiles: ctx.profiles()?.iter().map(ToString::to_string).collect(),
    };
    if args.json {
        ctx.print(&view)?;
        return Ok(Exit::Success);
    }
    let state = if view.exists { "is" } else { "will be" };
    ctx.console().print(&format!("board {} {state} in {}", view.board, view.path))?;
    ctx.console()
        .note(&format!("profiles that tasks can be assigned to: {}", view.profiles.join(", ")));
    ctx.console().note("to create a task: vestal kanban create TITLE --assignee PROFILE");
    ctx.console().note("to start workers: vestal kanban dispatch --watch");
    Ok(Exit::Success)
}

const STATS_HELP: &str = "\
Examples:
  vestal kanban stats
  vestal kanban stats --json | jq .by_status.ready";

/// Count tasks by status and profile.
#[derive(Debug, Args)]
#[command(after_help = STATS_HELP)]
pub(super) struct StatsArgs {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// Returns the statistics of the board; those of an empty board if it does not exist yet.
pub(super) async fn board_stats(ctx: &BoardContext<'_>) -> Result<BoardStats, CommandFailure> {
    match ctx.board_if_any().await? {
        Some(board) => Ok(board.stats().await?),
        None => Ok(BoardStats {
            by_status: BTreeMap::new(),
            by_assignee: BTreeMap::new(),
            oldest_ready_age_seconds: None,
            needs_attention: 0,
            now: Time::now(),
        }),
    }
}

pub(super) async fn run(ctx: &BoardContext<'_>, args: &StatsArgs) -> Result<Exit, CommandFailure> {
    let stats = board_stats(ctx).await?;
    if args.json {
        ctx.print(&stats)?;
        return Ok(Exit::Success);
    }
    if stats.by_status.is_empty() {
        ctx.console().note(&format!("no tasks on board {} yet", ctx.slug()));
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["", "STATUS", "TASKS", "PROFILES"]);
    for (status, count) in &stats.by_status {
        table.row(vec![
            Cell::styled(display::icon(*status), display::style(*status)),
            status.as_str().into(),
            count.to_string().into(),
            Cell::styled(profiles(&stats, *status), DIM),
        ]);
    }
    ctx.console().print_table(&table)?;
    if let Some(seconds) = stats.oldest_ready_age_seconds {
        let age = text::span(Duration::from_secs(seconds));
        ctx.console().note(&format!("longest wait for a worker: {age}"));
    }
    if stats.needs_attention > 0 {
        let need = if stats.needs_attention == 1 { "needs" } else { "need" };
        let count = text::count(stats.needs_attention, "task");
        ctx.console().warn(&format!("{count} {need} you: vestal kanban list --attention"));
    }
    Ok(Exit::Success)
}

fn profiles(stats: &BoardStats, status: Status) -> String {
    let counts = stats.by_assignee.iter().filter_map(|(profile, counts)| {
        counts.get(&status).map(|count| format!("{profile} {count}"))
    });
    counts.collect::<Vec<_>>().join(", ")
}

const DIAGNOSTICS_HELP: &str = "\
The exit code is 1 if there is something to report. The settings kanban.diagnostics.* set the
thresholds.

Examples:
  vestal kanban diagnostics
  vestal kanban diagnostics --severity error --json";

/// Report problems on the board, and what to do about them.
#[derive(Debug, Args)]
#[command(after_help = DIAGNOSTICS_HELP)]
pub(super) struct DiagnosticsArgs {
    /// Lowest severity to report: warning, error or critical.
    #[arg(long, value_name = "SEVERITY", default_value = "warning")]
    severity: Severity,

    /// Only report problems of this task.
    #[arg(long, value_name = "ID")]
    task: Option<String>,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn diagnostics(
    ctx: &BoardContext<'_>,
    args: &DiagnosticsArgs,
) -> Result<Exit, CommandFailure> {
    let mut findings = match ctx.board_if_any().await? {
        Some(board) => board.diagnostics(&thresholds(ctx)?).await?,
        None => Vec::new(),
    };
    findings.retain(|finding| finding.severity >= args.severity);
    if let Some(wanted) = &args.task {
        let (_, id) = ctx.task(wanted).await?;
        findings.retain(|finding| finding.task_id == id);
    }
    if args.json {
        ctx.print(&findings)?;
    } else {
        print_findings(ctx, &findings)?;
    }
    Ok(if findings.is_empty() { Exit::Success } else { Exit::No })
}

fn thresholds(ctx: &BoardContext<'_>) -> Result<Thresholds, CommandFailure> {
    let set = settings::thresholds(ctx.settings())?;
    let profiles = ctx.profiles()?.iter().map(ToString::to_string).collect();
    Ok(Thresholds {
        failures: set.failures,
        crashes: set.crashes,
        blocked: set.blocked,
        stranded: set.stranded,
        block_cycles: set.block_cycles,
        block_cycle_window: set.block_cycle_window,
        profiles: Some(profiles),
        ..Thresholds::default()
    })
}

fn print_findings(ctx: &BoardContext<'_>, findings: &[TaskFinding]) -> Result<(), CommandFailure> {
    let console = ctx.console();
    if findings.is_empty() {
        console.note("no problems found");
        return Ok(());
    }
    for finding in findings {
        let style = if finding.severity == Severity::Warning { YELLOW } else { RED };
        let severity = console.paint(style, &format!("{:<8}", finding.severity));
        let since = finding.since.map(display::ago).unwrap_or_default();
        console.print(
            format!(
                "{severity}  {}  {}  {}",
                finding.task_id,
                text::printable(&finding.title),
                console.paint(DIM, &since)
            )
            .trim_end(),
        )?;
        console.print(&format!("          {}", text::printable(&finding.message)))?;
        for suggestion in &finding.suggestions {
            let line = format!("          → {}", text::printable(suggestion));
            console.print(&console.paint(DIM, &line))?;
        }
    }
    Ok(())
}

const GC_HELP: &str = "\
A dispatcher does this regularly. Tasks, their comments and the last events and runs of each are
kept; a worktree with uncommitted changes is kept and reported.

Examples:
  vestal kanban gc
  vestal kanban gc --event-retention-days 7 --dry-run";

/// Remove old events, runs and logs, and files and worktrees without a task.
#[derive(Debug, Args)]
#[command(after_help = GC_HELP)]
pub(super) struct GcArgs {
    /// Days to keep events and runs, instead of `kanban.event_retention_days`.
    #[arg(long, value_name = "DAYS")]
    event_retention_days: Option<u32>,

    /// Days to keep logs, instead of `kanban.log_retention_days`.
    #[arg(long, value_name = "DAYS")]
    log_retention_days: Option<u32>,

    /// Show what would be removed, and remove nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

const DAY: Duration = Duration::from_hours(24);

pub(super) async fn gc(ctx: &BoardContext<'_>, args: &GcArgs) -> Result<Exit, CommandFailure> {
    let mut policy = GcPolicy { dry_run: args.dry_run, ..GcPolicy::from_settings(ctx.settings())? };
    if let Some(days) = args.event_retention_days {
        policy.retention.events = DAY * days;
    }
    if let Some(days) = args.log_retention_days {
        policy.logs = Some(DAY * days);
    }
    let collected = match ctx.board_if_any().await? {
        Some(board) => {
            let launcher = dispatch::launcher(ctx)?;
            vestal_dispatcher::gc(&board, &policy, Some(&launcher)).await?
        }
        None => CollectedLeftovers::default(),
    };
    if args.json {
        ctx.print(&CollectedView::from(&collected))?;
        return Ok(Exit::Success);
    }
    let verb = if args.dry_run { "would remove" } else { "removed" };
    ctx.console().print(&format!("{verb} {collected}"))?;
    for tree in &collected.kept {
        let path = tree.path.display();
        let text = format!("kept {path} of {}: {}", tree.task_id, text::printable(&tree.reason));
        ctx.console().note(&text);
    }
    Ok(Exit::Success)
}
