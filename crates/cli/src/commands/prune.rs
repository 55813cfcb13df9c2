//! `vestal prune`.

use std::path::Path;

use clap::Args;
use vestal_api::ReapedView;
use vestal_sandbox::{Pruned, ReapReason, Reaped};

use crate::console::{Table, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::values::quoted;

const AFTER_HELP: &str = "\
Running sandboxes are never removed. A stopped sandbox is removed when it has been unused for longer
than terminal.retention_seconds. Workspaces and homes stay. The exit code is 1 if something could
not be checked.

Example:
  vestal prune --dry-run";

/// Remove leftovers of crashes, and sandboxes that have expired.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PruneArgs {
    /// Show what would be removed, and remove nothing.
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(context: &Context, args: PruneArgs) -> Result<Exit, CommandFailure> {
    let engine = context.engine()?;
    let pruning = engine.prune_with_report(args.dry_run);
    let Pruned { reaped, unanswered, unrecorded } =
        context.console.while_waiting("pruning", pruning).await?;
    for path in &unrecorded {
        context.console.note(&unrecorded_text(path));
    }
    for (what, why) in &unanswered {
        context.console.warn(&format!("{what} could not be checked and is left alone: {why}"));
    }
    let exit = if unanswered.is_empty() { Exit::Success } else { Exit::No };
    if args.json {
        let views: Vec<ReapedView> =
            reaped.iter().map(|reaped| ReapedView::new(reaped, !args.dry_run)).collect();
        context.console.print_json(&views)?;
        return Ok(exit);
    }
    if reaped.is_empty() {
        if unanswered.is_empty() {
            context.console.note("nothing to remove");
        }
        return Ok(exit);
    }
    let mut table = Table::new(&["TASK", "INSTANCE", "WHY"]);
    for reaped in &reaped {
        table.row(vec![
            reaped.task.as_str().into(),
            reaped.instance.as_deref().unwrap_or("-").into(),
            explanation(reaped).into(),
        ]);
    }
    context.console.print_table(&table)?;
    let message = summary(&reaped, args.dry_run);
    context.console.note(&message);
    Ok(exit)
}

/// Describes a directory with files that no sandbox belongs to.
fn unrecorded_text(path: &Path) -> String {
    let message = format!(
        "{} has files but no sandbox (it ended with its process, could not be created, or lost its record); left alone",
        path.display()
    );
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The name of such a directory is a part of its task's and a hash, from which
    // the task cannot be determined.
    if name.contains('~') {
        return message;
    }
    let task = quoted(&name);
    format!(
        "{message}; to use the files: vestal run -t {task} CMD; to remove them: vestal rm --files \
         {task}"
    )
}

fn explanation(reaped: &Reaped) -> &'static str {
    match reaped.reason {
        ReapReason::Unfinished if reaped.instance.is_none() => {
            "left by a process that died while working on the sandbox"
        }
        ReapReason::Unfinished => "a process died while working on it",
        ReapReason::Ownerless => "the process it belonged to is gone",
        ReapReason::Superseded => "another instance has taken its place",
        ReapReason::Expired => "unused for longer than the retention",
        ReapReason::Forgotten => "forgotten while its machine did not answer",
    }
}

/// Returns how much was removed. What was cleaned up in a sandbox that lives on is no
/// instance.
fn summary(reaped: &[Reaped], dry_run: bool) -> String {
    let instances = reaped.iter().filter(|reaped| reaped.instance.is_some()).count();
    let counts = [(instances, "instance"), (reaped.len() - instances, "leftover")];
    let counts = counts.iter().filter(|(number, _)| *number > 0);
    let counts: Vec<String> = counts.map(|(number, what)| text::count(*number, what)).collect();
    let verb = if dry_run { "would be removed" } else { "removed" };
    format!("{} {verb}", counts.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_in_a_sandbox_that_lives_on_is_not_called_an_instance() {
        let reaped = |instance: Option<&str>| Reaped {
            task: "web".to_owned(),
            instance: instance.map(str::to_owned),
            reason: ReapReason::Unfinished,
        };
        assert_eq!(summary(&[reaped(None)], false), "1 leftover removed");
        let all = [reaped(Some("a")), reaped(None), reaped(Some("b"))];
        assert_eq!(summary(&all, true), "2 instances and 1 leftover would be removed");
    }

    #[test]
    fn only_a_directory_that_has_its_tasks_name_is_reported_with_commands_on_the_task() {
        let message = unrecorded_text(Path::new("/s/web"));
        assert!(message.ends_with("vestal run -t web CMD; to remove them: vestal rm --files web"));
        let message = unrecorded_text(Path::new("/s/web_work_a~0123456789ab"));
        assert!(message.starts_with("/s/web_work_a~0123456789ab has files"), "{message}");
        assert!(message.ends_with("left alone"), "{message}");
    }
}
