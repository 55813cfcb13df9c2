//! `vestal conversations branch`.

use clap::Args;
use vestal_api::ConversationView;
use vestal_conversations::{Seq, Store, Title};
use vestal_runtime::SANDBOX_CHOICE;

use super::{find, print};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The numbers of messages are those that `show` tells. The first conversation stays as it is.

Example:
  vestal conversations branch k3f9ab --at 4 --title 'another way'";

/// Copies a conversation up to a message, to go another way from there.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct BranchArgs {
    /// The conversation.
    #[arg(value_name = "ID")]
    id: String,

    /// The last message that is copied; without it all are.
    #[arg(long, value_name = "NUMBER")]
    at: Option<i64>,

    /// The title of the copy; without it that of the first, with a number.
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    context: &Context,
    store: Option<&Store>,
    args: BranchArgs,
) -> Result<Exit, Failure> {
    let (store, id) = find(store, &args.id).await?;
    let title = args.title.map(Title::Given);
    let branch = match args.at {
        None => store.branch_with_state(&id, title, &[]).await?,
        // What it remembers may be of later; where it works is not.
        Some(at) => {
            let branch = store.branch(&id, Some(Seq(at)), title).await?;
            let place = store.state(&id, SANDBOX_CHOICE).await?;
            store.set_state(&branch.id, SANDBOX_CHOICE, place.as_ref()).await?;
            branch
        }
    };
    if args.json {
        let summary = store.summary(&branch.id).await?;
        print(context, &ConversationView::from(&summary))?;
    } else {
        context.console.print(branch.id.as_str())?;
        context
            .console
            .note(&format!("to go on there: vestal chat --resume {}", branch.id.short()));
    }
    Ok(Exit::Success)
}
