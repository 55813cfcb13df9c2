//! `vestal profile delete`.

use clap::Args;
use serde::Serialize;

use super::named;
use super::sandboxes::Sandboxes;
use crate::confirm;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Its sandboxes go first, with their files; when one of them cannot be reached, nothing is deleted.

Example:
  vestal profile delete work";

/// Deletes a profile with everything in it.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct DeleteArgs {
    /// The profile.
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
struct DeletedView {
    name: String,
    /// Tasks whose sandboxes went with it.
    sandboxes: Vec<String>,
}

pub(super) async fn run(context: &Context, args: DeleteArgs) -> Result<Exit, Failure> {
    let name = named(&args.name)?;
    let profiles = context.profiles()?;
    let home = profiles.check_delete(&name)?;
    let sandboxes = Sandboxes::of(context, &home).await?;
    let mut plans = sandboxes.as_ref().map(Sandboxes::plans).unwrap_or_default();
    plans.push(format!(
        "{} goes, with settings, secrets, conversations, memories and skills",
        home.dir().display()
    ));
    if !args.yes && !confirm::is_named(context.console, "delete", name.as_str(), &plans)? {
        context.console.note("nothing was deleted");
        return Ok(Exit::No);
    }
    let removed = match sandboxes {
        Some(sandboxes) => sandboxes.remove(context, &home).await?,
        None => Vec::new(),
    };
    profiles.delete(&name)?;
    if args.json {
        let view = DeletedView { name: name.to_string(), sandboxes: removed };
        context.console.print_json(&view)?;
        return Ok(Exit::Success);
    }
    let with = match removed.as_slice() {
        [] => String::new(),
        tasks => format!(" and its sandboxes {}", tasks.join(", ")),
    };
    context.console.print(&format!("deleted profile {name}{with}"))?;
    Ok(Exit::Success)
}
