//! `vestal profile use`.

use clap::Args;
use serde::Serialize;

use super::named;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The choice stays until another is made. `default` can always be chosen.

Example:
  vestal profile use work";

/// Chooses the profile that is used when nobody names one.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct UseArgs {
    /// The profile.
    #[arg(value_name = "NAME")]
    name: String,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct ChosenView {
    name: String,
}

pub(super) fn run(context: &Context, args: &UseArgs) -> Result<Exit, Failure> {
    let name = named(&args.name)?;
    context.profiles()?.choose(&name)?;
    if args.json {
        context.console.print_json(&ChosenView { name: name.to_string() })?;
    } else {
        context.console.print(&format!("profile {name} is used from now on"))?;
    }
    let variable = context.environment().non_empty("VESTAL_PROFILE");
    if variable.is_some_and(|value| !value.eq_ignore_ascii_case(name.as_str())) {
        context.console.warn("VESTAL_PROFILE is set to another one and goes first");
    }
    Ok(Exit::Success)
}
