//! `vestal profile list`.

use clap::Args;

use crate::console::{Cell, DIM, GREEN, Table};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
The one that is used when nobody names one is marked with *.

Examples:
  vestal profile list
  vestal profile list --json | jq -r '.[].name'";

/// Lists the profiles.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ListArgs {
    /// Prints an array of JSON objects.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(context: &Context, args: &ListArgs) -> Result<Exit, Failure> {
    let current = context.home_if_any();
    let listing = context.profiles()?.list(current.as_ref());
    let console = context.console;
    if let Some(trouble) = context.tolerate_choice() {
        console.warn(&trouble.to_string());
    }
    if args.json {
        console.print_json(&listing.profiles)?;
    } else {
        let mut table = Table::new(&["", "NAME", "MODEL", "DESCRIPTION", "PATH"]);
        for view in &listing.profiles {
            table.row(vec![
                Cell::styled(if view.active { "*" } else { "" }, GREEN),
                view.name.as_str().into(),
                view.model.as_deref().unwrap_or("-").into(),
                view.description.as_str().into(),
                Cell::styled(view.path.to_string_lossy(), DIM),
            ]);
        }
        console.print_table(&table)?;
    }
    for view in &listing.profiles {
        if let Some(problem) = &view.problem {
            console.warn(&format!("profile {}: {problem}", view.name));
        }
    }
    for stray in &listing.strays {
        console.warn(&format!("{} is no profile: {}", stray.path.display(), stray.reason));
    }
    Ok(Exit::Success)
}
