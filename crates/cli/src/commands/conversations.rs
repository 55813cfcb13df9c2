//! `vestal conversations`: its verbs, and what they share.

mod change;
mod export;
mod read;

use clap::{Args, Subcommand};
use serde::Serialize;
use vestal_conversations::{ConversationId, ConversationStore, Error};

use crate::console::json;
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
ID is the id or title of a conversation, a unique prefix of either, or the short id that `list`
shows. The exit code is 1 if no conversation matches, or more than one.

Examples:
  vestal conversations list
  vestal conversations show k3f9ab
  vestal conversations search 'build failed'";

/// List, show, search and change conversations with the agent.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ConversationsArgs {
    #[command(subcommand)]
    verb: ConversationsVerb,
}

#[derive(Debug, Subcommand)]
enum ConversationsVerb {
    List(read::ListArgs),
    Show(read::ShowArgs),
    Search(read::SearchArgs),
    Rename(change::RenameArgs),
    Branch(change::BranchArgs),
    Undo(change::UndoArgs),
    Export(export::ExportArgs),
    Delete(change::DeleteArgs),
}

pub(crate) async fn run(
    context: &Context,
    args: ConversationsArgs,
) -> Result<Exit, CommandFailure> {
    let store = open(context).await?;
    let done = match args.verb {
        ConversationsVerb::List(args) => read::list(context, store.as_ref(), args).await,
        ConversationsVerb::Show(args) => read::show(context, store.as_ref(), &args).await,
        ConversationsVerb::Search(args) => read::search(context, store.as_ref(), &args).await,
        ConversationsVerb::Rename(args) => change::rename(context, store.as_ref(), args).await,
        ConversationsVerb::Branch(args) => change::branch(context, store.as_ref(), args).await,
        ConversationsVerb::Undo(args) => change::undo(context, store.as_ref(), &args).await,
        ConversationsVerb::Export(args) => export::run(context, store.as_ref(), &args).await,
        ConversationsVerb::Delete(args) => change::delete(context, store.as_ref(), &args).await,
    };
    if let Some(store) = store
        && let Err(error) = store.close().await
    {
        // All that was written is safe in the log.
        tracing::debug!(%error, "the conversations were not closed tidily");
    }
    done
}

/// Opens the conversations of the profile, if there are any yet.
async fn open(context: &Context) -> Result<Option<ConversationStore>, CommandFailure> {
    Ok(ConversationStore::open_existing(context.home()?.dir().join("state.db")).await?)
}

/// Prints a value as JSON: on one line for programs, indented for people.
fn print(context: &Context, value: &impl Serialize) -> Result<(), CommandFailure> {
    context.console.print(&json::shown(value)?)
}

/// Finds the conversation that is meant. Where it is not clear which, those it
/// may be are listed.
async fn find<'s>(
    store: Option<&'s ConversationStore>,
    wanted: &str,
) -> Result<(&'s ConversationStore, ConversationId), CommandFailure> {
    let Some(store) = store else {
        return Err(Error::NotFound { wanted: wanted.to_owned() }.into());
    };
    match store.find(wanted).await {
        Ok(id) => Ok((store, id)),
        Err(Error::Ambiguous { wanted, candidates }) => {
            let message = format!("{wanted:?} matches {} conversations", candidates.len());
            let failure = CommandFailure::new(message).with_exit(Exit::No);
            Err(candidates.iter().fold(failure, |failure, candidate| {
                let title = candidate.title.as_deref().unwrap_or_default();
                failure.advise(format!("{}  {}", candidate.id, title.replace('\n', " ")))
            }))
        }
        Err(error) => Err(error.into()),
    }
}
