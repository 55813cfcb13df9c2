//! `vestal conversations delete`.

use clap::Args;
use vestal_api::DeletedConversationView;
use vestal_conversations::{Store, Summary};

use super::{find, print};
use crate::confirm;
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
On a terminal it asks first, unless -y is given; without a terminal it needs -y. Branches and
delegated conversations stay. Sandboxes are not touched.

Example:
  vestal conversations delete k3f9ab 'an old one'";

/// Deletes conversations for good.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct DeleteArgs {
    /// The conversations.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Asks no question.
    #[arg(short, long)]
    yes: bool,

    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    context: &Context,
    store: Option<&Store>,
    args: &DeleteArgs,
) -> Result<Exit, Failure> {
    // All are found and free before any goes: a mistyped name deletes nothing.
    let mut summaries: Vec<Summary> = Vec::new();
    let mut leases = Vec::new();
    for wanted in &args.ids {
        let (store, id) = find(store, wanted).await?;
        if summaries.iter().all(|summary| summary.conversation.id != id) {
            leases.push(store.lease(&id)?);
            summaries.push(store.summary(&id).await?);
        }
    }
    if !args.yes && !is_confirmed(context, &summaries)? {
        context.console.note("nothing was deleted");
        return Ok(Exit::No);
    }
    for summary in &summaries {
        if let Some(store) = store {
            store.delete(&summary.conversation.id).await?;
        }
        if !args.json {
            context.console.print(&format!("deleted {}", described(summary)))?;
        }
    }
    drop(leases);
    if args.json {
        let views: Vec<DeletedConversationView> = summaries.iter().map(Into::into).collect();
        print(context, &views)?;
    }
    Ok(Exit::Success)
}

fn is_confirmed(context: &Context, summaries: &[Summary]) -> Result<bool, Failure> {
    let plans: Vec<String> =
        summaries.iter().map(|summary| format!("{} goes for good", described(summary))).collect();
    confirm::is_confirmed(context.console, "delete", "Delete?", &plans)
}

fn described(summary: &Summary) -> String {
    let conversation = &summary.conversation;
    let about = conversation.title.as_deref().unwrap_or(&summary.preview);
    let messages = text::count(summary.messages, "message");
    format!("{} ({}, {messages})", conversation.id, text::printable(about))
}
