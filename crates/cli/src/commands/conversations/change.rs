//! `vestal conversations rename`, `branch`, `undo` and `delete`.

use clap::Args;
use vestal_api::{ConversationView, DeletedConversationView, RenamedConversationView, UndoneView};
use vestal_conversations::{ConversationStore, ConversationSummary, Seq, Title};
use vestal_runtime::SANDBOX_CHOICE;

use super::{find, print};
use crate::confirm;
use crate::console::text;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const RENAME_HELP: &str = "\
Titles are unique: the exit code is 1 if another conversation has the title.

Example:
  vestal conversations rename k3f9ab 'fix the build'";

/// Set the title of a conversation.
#[derive(Debug, Args)]
#[command(after_help = RENAME_HELP)]
pub(super) struct RenameArgs {
    /// Conversation id, a unique prefix of it, or its title.
    #[arg(value_name = "ID")]
    id: String,

    /// New title, one line.
    #[arg(value_name = "TITLE")]
    title: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn rename(
    context: &Context,
    store: Option<&ConversationStore>,
    args: RenameArgs,
) -> Result<Exit, CommandFailure> {
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
`vestal conversations show` prints the numbers of the messages. The original is not changed.

Example:
  vestal conversations branch k3f9ab --at 4 --title 'another way'";

/// Copy a conversation up to a message, to continue differently from there.
#[derive(Debug, Args)]
#[command(after_help = BRANCH_HELP)]
pub(super) struct BranchArgs {
    /// Conversation id, a unique prefix of it, or its title.
    #[arg(value_name = "ID")]
    id: String,

    /// Last message to copy [default: all messages].
    #[arg(long, value_name = "NUMBER")]
    at: Option<i64>,

    /// Title of the copy [default: the title of the original, with a number].
    #[arg(long, value_name = "TITLE")]
    title: Option<String>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn branch(
    context: &Context,
    store: Option<&ConversationStore>,
    args: BranchArgs,
) -> Result<Exit, CommandFailure> {
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
            .note(&format!("to continue it: vestal chat --resume {}", branch.id.short()));
    }
    Ok(Exit::Success)
}

const UNDO_HELP: &str = "\
Only messages are taken back; changes that the agent made to files and processes stay. `show --all`
still shows the messages. The exit code is 1 if there is nothing to take back.

Example:
  vestal conversations undo k3f9ab --turns 2";

/// Take back the last turns of a conversation.
#[derive(Debug, Args)]
#[command(after_help = UNDO_HELP)]
pub(super) struct UndoArgs {
    /// Conversation id, a unique prefix of it, or its title.
    #[arg(value_name = "ID")]
    id: String,

    /// Number of turns to take back.
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 1)]
    turns: u32,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn undo(
    context: &Context,
    store: Option<&ConversationStore>,
    args: &UndoArgs,
) -> Result<Exit, CommandFailure> {
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
Asks for confirmation on a terminal; without a terminal, -y is required. Branches and conversations
of subagents stay. Sandboxes are not touched.

Example:
  vestal conversations delete k3f9ab 'an old one'";

/// Delete conversations.
#[derive(Debug, Args)]
#[command(after_help = DELETE_HELP)]
pub(super) struct DeleteArgs {
    /// Conversation ids, unique prefixes of them, or titles.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Do not ask for confirmation.
    #[arg(short, long)]
    yes: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn delete(
    context: &Context,
    store: Option<&ConversationStore>,
    args: &DeleteArgs,
) -> Result<Exit, CommandFailure> {
    // All are found and free before any goes: a mistyped name deletes nothing.
    let mut summaries: Vec<ConversationSummary> = Vec::new();
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

fn is_confirmed(
    context: &Context,
    summaries: &[ConversationSummary],
) -> Result<bool, CommandFailure> {
    let plans: Vec<String> =
        summaries.iter().map(|summary| format!("{} will be deleted", described(summary))).collect();
    confirm::is_confirmed(context.console, "delete", "Delete?", &plans)
}

fn described(summary: &ConversationSummary) -> String {
    let conversation = &summary.conversation;
    let about = conversation.title.as_deref().unwrap_or(&summary.preview);
    let messages = text::count(summary.messages, "message");
    format!("{} ({}, {messages})", conversation.id, text::printable(about))
}
