//! `vestal kanban attach`.

use std::path::PathBuf;

use clap::Args;
use vestal_api::AttachmentView;
use vestal_board::{NewAttachment, Source};

use super::desk::Desk;
use crate::console::text;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The file is copied to the board, 25 MiB at most; workers are told where it is.

Examples:
  vestal kanban attach t_4x7k figures.csv
  vestal kanban attach t_4x7k /tmp/x.bin --name model.bin --content-type application/octet-stream";

/// Adds a file to a task.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct AttachArgs {
    /// The task.
    #[arg(value_name = "ID")]
    id: String,

    /// The file.
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Its name on the board, in place of its own.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// What is in it, as in `text/csv`.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// In whose name.
    #[arg(long, value_name = "NAME")]
    author: Option<String>,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: AttachArgs) -> Result<Exit, Failure> {
    let (board, id) = desk.task(&args.id).await?;
    let own = || args.path.file_name().map(|name| name.to_string_lossy().into_owned());
    let Some(name) = args.name.clone().or_else(own) else {
        return Err(Failure::usage(format!("{} is no file", args.path.display())));
    };
    let new =
        NewAttachment { name, content_type: args.content_type, source: Source::File(args.path) };
    let by = desk.in_name_of(args.author.as_deref());
    let attachment = board.attach(&by, &id, new).await?;
    if args.json {
        desk.print(&AttachmentView::from(&attachment))?;
    } else {
        desk.console().print(&format!(
            "attached {} to {id}  (number {}, {})",
            text::printable(&attachment.filename),
            attachment.id,
            text::bytes(attachment.size)
        ))?;
    }
    Ok(Exit::Success)
}
