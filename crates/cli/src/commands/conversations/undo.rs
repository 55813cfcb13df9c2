//! `vestal conversations undo`.

use clap::Args;
use vestal_api::UndoneView;
use vestal_conversations::Store;

use super::{find, print};
use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
What the agent did meanwhile to files and processes stays as it is; only what was said is taken
back. `show --all` still shows it. The exit code is 1 when there is nothing to take back.

Example:
  vestal conversations undo k3f9ab --turns 2";

/// Takes the last turns of a conversation back.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
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

pub(super) async fn run(
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
