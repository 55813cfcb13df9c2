//! `vestal conversations rename`, `branch`, `undo` and `delete`.

use clap::Args;
use vestal_api::{ConversationView, DeletedConversationView, RenamedConversationView, UndoneView};
use vestal_conversations::{Seq, Store, Summary, Title};
use vestal_runtime::SANDBOX_CHOICE;

use super::{find, print};
use crate::confirm;
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const RENAME_HELP: &str = "\
Two conversations cannot have the same title: the exit code is then 1.

Example:
  vestal conversations rename k3f9ab 'fix the build'";

/// Gives a conversation a title.
#[derive(Debug, Args)]
#[command(after_help = RENAME_HELP)]
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

pub(super) async fn rename(
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

const BRANCH_HELP: &str = "\
The numbers of messages are those that `show` tells. The first conversation stays as it is.

Example:
  vestal conversations branch k3f9ab --at 4 --title 'another way'";

/// Copies a conversation up to a message, to go another way from there.
#[derive(Debug, Args)]
#[command(after_help = BRANCH_HELP)]
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

pub(super) async fn branch(
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

const UNDO_HELP: &str = "\
What the agent did meanwhile to files and processes stays as it is; only what was said is taken
back. `show --all` still shows it. The exit code is 1 when there is nothing to take back.

Example:
  vestal conversations undo k3f9ab --turns 2";

/// Takes the last turns of a conversation back.
#[derive(Debug, Args)]
#[command(after_help = UNDO_HELP)]
pub(super) struct UndoArgs {
    /// The conversation.
    #[arg(value_name = "ID")]
    id: String,

    /// How many turns.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 1)]
    turns: u32,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn undo(
    context: &Context,
    store: Option<&Store>,
    args: &UndoArgs,
) -> Result<Exit, Failure> {
    let (store, id) = find(store, &args.id).await?;
    let _lease = store.lease(&id)?;
    let undone = vestal_agent::undo_stored(store, &id, args.turns).await?;
    if args.json {
        let (turns, messages) = (undone.turns, undone.messages);
        print(context, &UndoneView { id: id.to_string(), turns, messages })?;
    } else if undone.turns == 0 {
        context.console.note("there is nothing to take back");
    } else {
        let turns = text::count(undone.turns, "turn");
        let messages = text::count(undone.messages, "message");
        context.console.print(&format!("took back {turns} ({messages}) of {id}"))?;
    }
    Ok(if undone.turns == 0 { Exit::No } else { Exit::Success })
}

const DELETE_HELP: &str = "\
On a terminal it asks first, unless -y is given; without a terminal it needs -y. Branches and
delegated conversations stay. Sandboxes are not touched.

Example:
  vestal conversations delete k3f9ab 'an old one'";

/// Deletes conversations for good.
#[derive(Debug, Args)]
#[command(after_help = DELETE_HELP)]
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

pub(super) async fn delete(
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
