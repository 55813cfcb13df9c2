//! `vestal kanban boards create`.

use std::path::PathBuf;

use clap::Args;
use vestal_board::boards::{Listed, NewBoard};

use super::{Desk, list, named};
use crate::commands::kanban::values::absolute;
use crate::error::Failure;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
A board that is there already is left as it is.

Examples:
  vestal kanban boards create website --switch
  vestal kanban boards create app --name 'The app' --default-workdir ~/src/app";

/// Makes a board.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct CreateArgs {
    /// Its name for programs: a-z, 0-9, _ and -; it never changes.
    #[arg(value_name = "SLUG")]
    slug: String,

    /// Its name for people.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// What it is for.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// A sign that stands for it.
    #[arg(long, value_name = "SIGN")]
    icon: Option<String>,

    /// Its colour.
    #[arg(long, value_name = "COLOUR")]
    color: Option<String>,

    /// Directory for tasks that need one and name none.
    #[arg(long, value_name = "PATH")]
    default_workdir: Option<PathBuf>,

    /// Makes it the current one.
    #[arg(long)]
    switch: bool,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk<'_>, args: CreateArgs) -> Result<Exit, Failure> {
    let slug = named(&args.slug)?;
    let new = NewBoard {
        name: args.name,
        description: args.description,
        icon: args.icon,
        color: args.color,
        default_workdir: args.default_workdir.as_deref().map(absolute).transpose()?,
    };
    let created = if args.switch {
        desk.boards().create_and_switch(&slug, new).await?
    } else {
        desk.boards().create(&slug, new).await?
    };
    if args.json {
        let listed = Listed::new(slug.clone(), created.info);
        let mut view = list::view(desk, &listed);
        view.current = args.switch || view.current;
        desk.print(&view)?;
        return Ok(Exit::Success);
    }
    let console = desk.console();
    let dir = desk.boards().dir(&slug);
    if created.existed {
        console.print(&format!("board {slug} exists already, in {}", dir.display()))?;
    } else {
        console.print(&format!("made board {slug} in {}", dir.display()))?;
    }
    if args.switch {
        console.note(&format!("{slug} is now the current board"));
    } else if &slug != desk.slug() {
        console.note(&format!(
            "to use it: vestal kanban --board {slug} …, or from now on: vestal kanban boards switch {slug}"
        ));
    }
    Ok(Exit::Success)
}
