//! `vestal profile rename`.

use clap::Args;
use serde::Serialize;

use super::named;
use super::sandboxes::Sandboxes;
use crate::confirm;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Sandboxes know their profile by its name. Their instances are removed, with running jobs and what was
installed in them; workspaces, homes and snapshots stay, and the next use makes new instances with
them.

Example:
  vestal profile rename work office";

/// Gives a profile another name.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RenameArgs {
    /// The profile.
    #[arg(value_name = "NAME")]
    from: String,

    /// Its new name.
    #[arg(value_name = "NEW-NAME")]
    to: String,

    /// Doesn't ask before instances are removed.
    #[arg(short, long)]
    yes: bool,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct RenamedView {
    name: String,
    was: String,
    path: String,
    /// Instances of sandboxes that were removed.
    instances: usize,
}

pub(super) async fn run(context: &Context, args: RenameArgs) -> Result<Exit, Failure> {
    let (from, to) = (named(&args.from)?, named(&args.to)?);
    let profiles = context.profiles()?;
    let (old, _) = profiles.check_rename(&from, &to)?;
    let mut instances = 0;
    if let Some(sandboxes) = Sandboxes::of(context, &old).await? {
        sandboxes.refuse_volumes().await?;
        let plans = sandboxes.plans();
        let question = "Workspaces and homes stay. Rename?";
        let verb = "remove instances";
        if !plans.is_empty()
            && !args.yes
            && !confirm::is_confirmed(context.console, verb, question, &plans)?
        {
            context.console.note("nothing was renamed");
            return Ok(Exit::No);
        }
        instances = sandboxes.free(context).await?;
    }
    let home = profiles.rename(&from, &to)?;
    if args.json {
        context.console.print_json(&RenamedView {
            name: to.to_string(),
            was: from.to_string(),
            path: home.dir().display().to_string(),
            instances,
        })?;
    } else {
        let path = home.dir().display().to_string();
        context.console.print(&format!("profile {from} is now {to}, in {path}"))?;
    }
    Ok(Exit::Success)
}
