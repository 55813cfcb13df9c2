//! `vestal profile list`, `show` and `use`.

use clap::Args;
use vestal_api::ChosenProfileView;

use super::named;
use crate::console::{Cell, DIM, GREEN, Table, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

const LIST_HELP: &str = "\
The default choice is marked with *.

Examples:
  vestal profile list
  vestal profile list --json | jq -r '.[].name'";

/// List the profiles.
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct ListArgs {
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) fn list(context: &Context, args: &ListArgs) -> Result<Exit, CommandFailure> {
    let current = context.home_if_any();
    let listing = context.profiles()?.list(current.as_ref());
    let console = context.console;
    if let Some(trouble) = context.fall_back_to_default() {
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
        console.warn(&format!("{} is not a profile: {}", stray.path.display(), stray.reason));
    }
    Ok(Exit::Success)
}

const SHOW_HELP: &str = "\
Model and provider are read from the files of the profile.

Examples:
  vestal profile show
  vestal profile show work --json";

/// Show a profile.
#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP)]
pub(super) struct ShowArgs {
    /// Name of the profile [default: the current one].
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn show(context: &Context, args: &ShowArgs) -> Result<Exit, CommandFailure> {
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

const CHOOSE_HELP: &str = "\
The choice stays until another is made. `default` can always be chosen.

Example:
  vestal profile use work";

/// Choose the profile to use by default.
#[derive(Debug, Args)]
#[command(after_help = CHOOSE_HELP)]
pub(super) struct UseArgs {
    /// Name of the profile.
    #[arg(value_name = "NAME")]
    name: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn choose(context: &Context, args: &UseArgs) -> Result<Exit, CommandFailure> {
    let name = named(&args.name)?;
    context.profiles()?.choose(&name)?;
    if args.json {
        context.console.print_json(&ChosenProfileView { name: name.to_string() })?;
    } else {
        context.console.print(&format!("now using profile {name}"))?;
    }
    let variable = context.environment().non_empty("VESTAL_PROFILE");
    if variable.is_some_and(|value| !value.eq_ignore_ascii_case(name.as_str())) {
        context.console.warn("VESTAL_PROFILE names another profile and takes precedence");
    }
    Ok(Exit::Success)
}
