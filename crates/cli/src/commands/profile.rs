//! `vestal profile`: its verbs, and what they share.

mod archive;
mod change;
mod read;

use clap::{Args, Subcommand};
use vestal_config::ProfileName;

use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
A profile is an isolated home with its own settings, secrets, conversations, memories, skills and
sandboxes. The profile is chosen by -p NAME, else $VESTAL_PROFILE, else `vestal profile use`, else
it is `default`. The exit code is 1 if a name is invalid, taken or unknown.

Example:
  vestal profile create work --clone && vestal -p work run 'echo at work'";

/// Manage profiles: isolated homes with their own settings and sandboxes.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    verb: ProfileVerb,
}

#[derive(Debug, Subcommand)]
enum ProfileVerb {
    Create(change::CreateArgs),
    List(read::ListArgs),
    Show(read::ShowArgs),
    Use(read::UseArgs),
    Rename(change::RenameArgs),
    Delete(change::DeleteArgs),
    Export(archive::ExportArgs),
    Import(archive::ImportArgs),
}

pub(crate) async fn run(context: &Context, args: ProfileArgs) -> Result<Exit, CommandFailure> {
    context.refuse_unknown_option()?;
    match args.verb {
        ProfileVerb::Create(args) => change::create(context, &args),
        ProfileVerb::List(args) => read::list(context, &args),
        ProfileVerb::Show(args) => read::show(context, &args),
        ProfileVerb::Use(args) => read::choose(context, &args),
        ProfileVerb::Rename(args) => change::rename(context, args).await,
        ProfileVerb::Delete(args) => change::delete(context, args).await,
        ProfileVerb::Export(args) => archive::export(context, &args),
        ProfileVerb::Import(args) => archive::import(context, &args),
    }
}

/// Reads the name of a profile. A wrong one is not a wrong usage: the message and
/// the exit code are those of a name that is taken or unknown.
fn named(name: &str) -> Result<ProfileName, CommandFailure> {
    Ok(ProfileName::new(name)?)
}
