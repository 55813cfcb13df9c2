//! `vestal skills remove`.

use clap::Args;
use serde::Serialize;

use super::skills;
use crate::confirm;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Without a terminal to ask on, say -y.

Example:
  vestal skills remove pdf-forms";

/// Removes a skill with its folder, also one that is broken.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RemoveArgs {
    /// The skill.
    #[arg(value_name = "NAME")]
    name: String,

    /// Doesn't ask.
    #[arg(short, long)]
    yes: bool,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct RemovedView {
    name: String,
    path: String,
}

pub(super) fn run(context: &Context, args: &RemoveArgs) -> Result<Exit, Failure> {
    let (skills, console) = (skills(context)?, context.console);
    let catalogue = skills.catalogue();
    let there = catalogue.get(&args.name).map(|skill| skill.dir.clone());
    let there =
        there.or_else(|| catalogue.get_broken(&args.name).map(|own| own.folder().to_owned()));
    if let Some(path) = there.filter(|_| !args.yes) {
        let plans = [format!("{} goes, with all that is in it", path.display())];
        let question = format!("Remove {}?", args.name);
        if !confirm::is_confirmed(console, "remove it", &question, &plans)? {
            console.note("nothing was removed");
            return Ok(Exit::No);
        }
    }
    let path = skills.remove(&args.name)?.display().to_string();
    if args.json {
        console.print_json(&RemovedView { name: args.name.clone(), path })?;
    } else {
        console.print(&format!("removed {}, which was in {path}", args.name))?;
    }
    Ok(Exit::Success)
}
