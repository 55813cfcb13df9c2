//! `vestal skills list`.

use clap::Args;
use serde::Serialize;

use super::skills;
use super::view::{BrokenView, SkillView};
use crate::console::{Cell, DIM, Table, YELLOW};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Broken skills are listed with what is wrong and what to do about it; the others are not affected.

Examples:
  vestal skills list
  vestal skills list --json | jq -r '.skills[].name'";

/// Lists the skills.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ListArgs {
    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct ListView {
    skills: Vec<SkillView>,
    broken: Vec<BrokenView>,
}

pub(super) fn run(context: &Context, args: &ListArgs) -> Result<Exit, Failure> {
    let (skills, console) = (skills(context)?, context.console);
    let catalogue = skills.catalogue();
    let views: Vec<SkillView> =
        catalogue.skills.iter().map(|skill| SkillView::of(skill, &skills.needs(skill))).collect();
    if args.json {
        let broken = catalogue.broken.iter().map(BrokenView::from).collect();
        console.print_json(&ListView { skills: views, broken })?;
        return Ok(Exit::Success);
    }
    if views.is_empty() && catalogue.broken.is_empty() {
        console.note(&format!("no skills in {}", skills.root().display()));
        console.note("to install one: vestal skills install FOLDER|ARCHIVE");
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["NAME", "STATE", "CATEGORY", "DESCRIPTION"]);
    for view in &views {
        let (state, style) = match (view.enabled, view.missing.as_slice()) {
            (false, _) => ("disabled".to_owned(), DIM),
            (true, []) => ("enabled".to_owned(), DIM),
            (true, missing) => (format!("lacks {}", missing.join(", ")), YELLOW),
        };
        table.row(vec![
            view.name.as_str().into(),
            Cell::styled(state, style),
            view.category.as_deref().unwrap_or("-").into(),
            Cell::styled(short(&view.description), DIM),
        ]);
    }
    if !table.is_empty() {
        console.print_table(&table)?;
    }
    for broken in &catalogue.broken {
        console.warn(&broken.to_string());
    }
    Ok(Exit::Success)
}

/// Returns the beginning of a description, for a line of a table.
fn short(description: &str) -> String {
    match description.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", description[..at].trim_end()),
        None => description.to_owned(),
    }
}
