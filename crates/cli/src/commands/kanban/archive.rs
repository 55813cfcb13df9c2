//! `vestal kanban archive`.

use clap::Args;
use vestal_api::DeletedTaskView;

use super::bulk;
use super::desk::Desk;
use super::steps::Step;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
An archived task is out of the way and can be reopened; tasks that wait for it wait no more, also
where it was never done. --rm deletes archived tasks for good, with comments, runs and files.

Examples:
  vestal kanban archive t_4x7k t_9qwe
  vestal kanban archive --rm t_4x7k";

/// Puts tasks away, or deletes archived ones.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ArchiveArgs {
    /// The tasks.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Deletes tasks that are archived; nothing of them is left.
    #[arg(long = "rm")]
    delete: bool,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &ArchiveArgs) -> Result<Exit, Failure> {
    let by = desk.by();
    if args.delete {
        return delete(desk, args).await;
    }
    bulk::each(desk, &args.ids, args.json, |board, id| {
        let by = &by;
        async move { Ok(Step::new(board.archive(by, &id).await?, "archived")) }
    })
    .await
}

async fn delete(desk: &Desk<'_>, args: &ArchiveArgs) -> Result<Exit, Failure> {
    let mut told = Vec::new();
    let mut exit = Exit::Success;
    for name in &args.ids {
        let deleted = async {
            let (board, id) = desk.task(name).await?;
            board.delete(&desk.by(), &id).await?;
            Ok::<_, Failure>(id)
        };
        match deleted.await {
            Ok(id) => {
                if !args.json {
                    desk.console().print(&format!("deleted {id}"))?;
                }
                told.push(DeletedTaskView { task_id: id.to_string(), deleted: true, error: None });
            }
            Err(failure) => {
                desk.console().explain(&failure);
                exit = bulk::worse(exit, failure.exit());
                let error = failure.message().map(str::to_owned);
                told.push(DeletedTaskView { task_id: name.clone(), deleted: false, error });
            }
        }
    }
    if args.json {
        desk.print(&told)?;
    }
    Ok(exit)
}
