//! `vestal skills enable` and `vestal skills disable`.

use clap::Args;
use vestal_config::{AnyKey as _, SetOutcome, keys};

use super::skills;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_ENABLE: &str = "\
Takes it out of skills.disabled in config.yaml.

Example:
  vestal skills enable pdf-forms";

const AFTER_DISABLE: &str = "\
Adds it to skills.disabled in config.yaml: the agent does not see it any more, and the variables it
asks for are not forwarded.

Example:
  vestal skills disable pdf-forms";

/// Uses a skill again.
#[derive(Debug, Args)]
#[command(after_help = AFTER_ENABLE)]
pub(super) struct EnableArgs {
    /// The skill.
    #[arg(value_name = "NAME")]
    name: String,
}

/// Keeps a skill installed, and doesn't use it.
#[derive(Debug, Args)]
#[command(after_help = AFTER_DISABLE)]
pub(super) struct DisableArgs {
    /// The skill.
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn enable(context: &Context, args: &EnableArgs) -> Result<Exit, Failure> {
    let settings = context.settings()?;
    let name = &args.name;
    let outcome = vestal_config::take_out(&settings, keys::SKILLS_DISABLED.name(), name)?;
    if !outcome.taken {
        // A name that was disabled may be one that is gone; any other has to be there.
        skills(context)?.installed(name)?;
    }
    let did = if outcome.taken { "enabled" } else { "was enabled already:" };
    context.console.print(&format!("{did} {name}"))?;
    tell_hidden(context, &outcome.set);
    Ok(Exit::Success)
}

pub(super) fn disable(context: &Context, args: &DisableArgs) -> Result<Exit, Failure> {
    let settings = context.settings()?;
    let skill = skills(context)?.installed(&args.name)?;
    let name = skill.name().as_str();
    let outcome = vestal_config::append(&settings, keys::SKILLS_DISABLED.name(), name)?;
    let did = if outcome.added { "disabled" } else { "was disabled already:" };
    context.console.print(&format!("{did} {name}"))?;
    tell_hidden(context, &outcome.set);
    Ok(Exit::Success)
}

fn tell_hidden(context: &Context, set: &SetOutcome) {
    if let Some(source) = &set.hidden_by {
        let key = &set.name;
        context.console.warn(&format!("{source} says something else about {key}, and counts"));
    }
}
