//! `vestal kanban diagnostics`.

use clap::Args;
use vestal_board::settings;
use vestal_board::verbs::{Finding, Severity, Thresholds};

use super::desk::Desk;
use super::look;
use crate::console::{DIM, RED, YELLOW, text};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The exit code is 1 when there is something to be told. From when on something is worth a word is in
the settings kanban.diagnostics.*.

Examples:
  vestal kanban diagnostics
  vestal kanban diagnostics --severity error --json";

/// Says what may be wrong on the board, and what to do about it.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct DiagnosticsArgs {
    /// Only what is at least so bad: warning, error or critical.
    #[arg(long, value_name = "SEVERITY", default_value = "warning")]
    severity: Severity,

    /// Only about this task.
    #[arg(long, value_name = "ID")]
    task: Option<String>,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &DiagnosticsArgs) -> Result<Exit, Failure> {
    let mut findings = match desk.board_if_any().await? {
        Some(board) => board.diagnostics(&thresholds(desk)?).await?,
        None => Vec::new(),
    };
    findings.retain(|finding| finding.severity >= args.severity);
    if let Some(wanted) = &args.task {
        let (_, id) = desk.task(wanted).await?;
        findings.retain(|finding| finding.task_id == id);
    }
    if args.json {
        desk.print(&findings)?;
    } else {
        tell(desk, &findings)?;
    }
    Ok(if findings.is_empty() { Exit::Success } else { Exit::No })
}

fn thresholds(desk: &Desk<'_>) -> Result<Thresholds, Failure> {
    let set = settings::thresholds(desk.settings())?;
    let profiles = desk.profiles()?.iter().map(ToString::to_string).collect();
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

fn tell(desk: &Desk<'_>, findings: &[Finding]) -> Result<(), Failure> {
    let console = desk.console();
    if findings.is_empty() {
        console.note("nothing is wrong as far as can be seen");
        return Ok(());
    }
    for finding in findings {
        let style = if finding.severity == Severity::Warning { YELLOW } else { RED };
        let severity = console.paint(style, &format!("{:<8}", finding.severity));
        let since = finding.since.map(look::ago).unwrap_or_default();
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
