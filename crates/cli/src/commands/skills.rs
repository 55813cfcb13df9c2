//! `vestal skills`: its verbs, and what they share.

mod change;
mod read;

use std::sync::Arc;

use clap::{Args, Subcommand};
use vestal_skills::{SkillError, Skills};

use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
A skill is a folder with a SKILL.md, below skills/ in the home of the profile: instructions for a
kind of work, with scripts and references. The agent sees the list of skills, reads those it needs,
and finds their files read-only in its sandbox. In the chat, /NAME uses a skill. The exit code is 1
if a skill is unknown, broken or not installed.

Examples:
  vestal skills
  vestal skills install ./pdf-forms.zip
  vestal skills disable pdf-forms";

/// List, install and remove skills: instructions that the agent can look up.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct SkillsArgs {
    #[command(subcommand)]
    verb: Option<SkillsVerb>,

    #[command(flatten)]
    list: read::ListArgs,
}

#[derive(Debug, Subcommand)]
enum SkillsVerb {
    List(read::ListArgs),
    Show(read::ShowArgs),
    Install(change::InstallArgs),
    Update(change::UpdateArgs),
    Catalogue(change::CatalogueArgs),
    Remove(change::RemoveArgs),
    Enable(change::EnableArgs),
    Disable(change::DisableArgs),
    Check(read::CheckArgs),
}

pub(crate) async fn run(context: &Context, args: SkillsArgs) -> Result<Exit, CommandFailure> {
    match args.verb {
        None => read::list(context, &args.list),
        Some(SkillsVerb::List(args)) => read::list(context, &args),
        Some(SkillsVerb::Show(args)) => read::show(context, &args),
        Some(SkillsVerb::Install(args)) => change::install(context, &args).await,
        Some(SkillsVerb::Update(args)) => change::update(context, &args).await,
        Some(SkillsVerb::Catalogue(args)) => change::catalogue(context, &args).await,
        Some(SkillsVerb::Remove(args)) => change::remove(context, &args),
        Some(SkillsVerb::Enable(args)) => change::enable(context, &args),
        Some(SkillsVerb::Disable(args)) => change::disable(context, &args),
        Some(SkillsVerb::Check(args)) => read::check(context, &args),
    }
}

/// Returns the skills of the profile.
fn skills(context: &Context) -> Result<Skills, CommandFailure> {
    Ok(vestal_skills::from_settings(&Arc::new(context.settings()?)))
}

impl From<SkillError> for CommandFailure {
    fn from(error: SkillError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            SkillError::Config(error) => error.into(),
            SkillError::Set(error) => error.into(),
            SkillError::Io { .. } => failure,
            SkillError::Address(_) => Self::usage(error.to_string()),
            SkillError::NoCatalogue => failure
                .with_exit(Exit::No)
                .advise("for example: vestal config set skills.catalogue_url https://skills.sh"),
            SkillError::Exists { name, .. } => failure
                .with_exit(Exit::No)
                .advise("to replace it: --replace")
                .advise(format!("to keep both: --name {name}-2")),
            SkillError::Name(_)
            | SkillError::Unknown { .. }
            | SkillError::Broken(_)
            | SkillError::Disabled(_)
            | SkillError::Occupied { .. }
            | SkillError::Path { .. }
            | SkillError::NoFile { .. }
            | SkillError::TooLarge(_)
            | SkillError::Change(_)
            | SkillError::Fetch { .. }
            | SkillError::Source { .. } => failure.with_exit(Exit::No),
        }
    }
}
