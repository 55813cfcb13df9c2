//! `vestal kanban attachments`.

use clap::Args;
use vestal_api::AttachedFileView;

use super::desk::Desk;
use super::look;
use crate::console::{Cell, DIM, Table, text};
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  vestal kanban attachments t_4x7k
  vestal kanban attachments t_4x7k --json | jq -r '.[].path'";

/// Lists the files of a task.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct AttachmentsArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: &AttachmentsArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let files = board.show(&id).await?.attachments;
    let views: Vec<AttachedFileView> =
        files.iter().map(|file| AttachedFileView::new(&board, file)).collect();
    if args.json {
        desk.print(&views)?;
        return Ok(Exit::Success);
    }
    if views.is_empty() {
        desk.console()
            .note(&format!("{id} has no files; to add one: vestal kanban attach {id} PATH"));
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["NUMBER", "NAME", "SIZE", "BY", "ADDED", "PATH"]);
    for (file, view) in files.iter().zip(&views) {
        table.row(vec![
            file.id.to_string().into(),
            file.filename.as_str().into(),
            text::bytes(file.size).into(),
            file.uploaded_by.as_str().into(),
            look::ago(file.created_at).into(),
            Cell::styled(view.path.as_deref().unwrap_or("-"), DIM),
        ]);
    }
    desk.console().print_table(&table)?;
    Ok(Exit::Success)
}
