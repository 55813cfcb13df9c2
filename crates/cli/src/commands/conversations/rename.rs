//! `vestal conversations rename`.

use clap::Args;
use vestal_api::RenamedConversationView;
use vestal_conversations::{Store, Title};

use super::{find, print};
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Two conversations cannot have the same title: the exit code is then 1.

Example:
  vestal conversations rename k3f9ab 'fix the build'";

/// Gives a conversation a title.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RenameArgs {
    /// The conversation.
    #[arg(value_name = "ID")]
    id: String,

    /// The title: one line.
    #[arg(value_name = "TITLE")]
    title: String,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    context: &Context,
    store: Option<&Store>,
    args: RenameArgs,
) -> Result<Exit, Failure> {
    let (store, id) = find(store, &args.id).await?;
    let title = store.set_title(&id, &Title::Given(args.title)).await?;
    if args.json {
        print(context, &RenamedConversationView { id: id.to_string(), title })?;
    } else {
        context.console.print(&format!("{id} is now {:?}", text::printable(&title)))?;
    }
    Ok(Exit::Success)
}
