//! `vestal profile show`.

use clap::Args;

use super::named;
use crate::console::{DIM, text};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Model and provider are those of the profile's own files.

Examples:
  vestal profile show
  vestal profile show work --json";

/// Shows everything about a profile.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ShowArgs {
    /// The profile; without it the one in use.
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<Exit, Failure> {
    let current = context.home_if_any();
    let name = match &args.name {
        Some(name) => named(name)?,
        None => context.home_or_default()?.profile().clone(),
    };
    let details = context.profiles()?.show(&name, current.as_ref())?;
    let console = context.console;
    if args.json {
        console.print_json(&details)?;
        return Ok(Exit::Success);
    }
    let view = &details.view;
    let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
    let lines = [
        ("profile", view.name.clone()),
        ("description", given(Some(&view.description))),
        ("path", view.path.display().to_string()),
        ("active", yes(view.active)),
        ("model", given(view.model.as_deref())),
        ("provider", given(details.provider.as_deref())),
        ("sandboxes", details.sandboxes.to_string()),
        ("conversations", yes(details.conversations)),
        ("skills", details.skills.to_string()),
        ("memories", details.memories.to_string()),
        ("persona", yes(details.soul)),
    ];
    for (label, value) in lines {
        let label = console.paint(DIM, &format!("{label:<13}"));
        console.print(&format!("{label} {}", text::printable(&value)))?;
    }
    if let Some(problem) = &view.problem {
        console.warn(problem);
    }
    Ok(Exit::Success)
}
