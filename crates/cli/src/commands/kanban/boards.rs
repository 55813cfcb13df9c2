//! `vestal kanban boards`: makes, lists and removes boards, and chooses one.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use vestal_api::{BoardView, CurrentBoardView, RemovedBoardView, RestoredBoardView};
use vestal_board::boards::{BoardsError, ChosenBy, ListedBoard, NewBoard, Slug};
use vestal_board::{Error, Status};

use super::board_context::BoardContext;
use super::values::absolute;
use crate::console::{Cell, DIM, GREEN, RED, Table, YELLOW, text};
use crate::error::CommandFailure;
use crate::exit::Exit;

const BOARDS_HELP: &str = "\
Each board has its own tasks, files and logs; all profiles share them. The board `default` always
exists.

Examples:
  vestal kanban boards create website --name 'The website' --switch
  vestal kanban boards list";

/// Create, list, choose and remove boards.
#[derive(Debug, Args)]
#[command(after_help = BOARDS_HELP)]
pub(super) struct BoardsArgs {
    #[command(subcommand)]
    verb: BoardsVerb,
}

#[derive(Debug, Subcommand)]
enum BoardsVerb {
    #[command(visible_alias = "ls")]
    List(ListArgs),
    #[command(visible_alias = "new")]
    Create(CreateArgs),
    #[command(visible_aliases = ["remove", "delete"])]
    Rm(RmArgs),
    Restore(RestoreArgs),
    #[command(visible_alias = "use")]
    Switch(SwitchArgs),
    #[command(visible_alias = "current")]
    Show(ShowArgs),
    Rename(RenameArgs),
    #[command(name = "set-default-workdir")]
    Workdir(WorkdirArgs),
}

pub(super) async fn run(ctx: &BoardContext<'_>, args: BoardsArgs) -> Result<Exit, CommandFailure> {
    match args.verb {
        BoardsVerb::List(args) => list(ctx, &args).await,
        BoardsVerb::Create(args) => create(ctx, args).await,
        BoardsVerb::Rm(args) => rm(ctx, &args).await,
        BoardsVerb::Restore(args) => restore(ctx, &args).await,
        BoardsVerb::Switch(args) => switch(ctx, &args).await,
        BoardsVerb::Show(args) => show(ctx, &args).await,
        BoardsVerb::Rename(args) => rename(ctx, &args).await,
        BoardsVerb::Workdir(args) => set_default_workdir(ctx, &args).await,
    }
}

/// Reads the slug of a board. An invalid slug is reported like an unknown one.
fn named(slug: &str) -> Result<Slug, CommandFailure> {
    Ok(Slug::new(slug).map_err(BoardsError::from).map_err(Error::from)?)
}

const LIST_HELP: &str = "\
The current board is marked with *. OPEN counts all tasks that are not done.

Examples:
  vestal kanban boards list
  vestal kanban boards list --all --json | jq -r '.[].slug'";

/// List the boards.
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub(super) struct ListArgs {
    /// Include archived boards.
    #[arg(short, long)]
    all: bool,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub(super) async fn list(ctx: &BoardContext<'_>, args: &ListArgs) -> Result<Exit, CommandFailure> {
    let boards = ctx.boards().list(args.all).await?;
    let views: Vec<BoardView> = boards.iter().map(|board| view(ctx, board)).collect();
    if args.json {
        ctx.print(&views)?;
        return Ok(Exit::Success);
    }
    let mut table =
        Table::new(&["", "SLUG", "OPEN", "RUNNING", "NEED YOU", "NAME", "DESCRIPTION", "STATE"]);
    for view in &views {
        let state = match (&view.trouble, view.archived) {
            (Some(_), _) => Cell::styled("unreadable", YELLOW),
            (None, true) => Cell::styled("archived", DIM),
            (None, false) => Cell::from(""),
        };
        let name = format!("{} {}", view.icon, view.name);
        table.row(vec![
            Cell::styled(if view.current { "*" } else { "" }, GREEN),
            view.slug.as_str().into(),
            count(view, |status| !matches!(status, Status::Done | Status::Archived)).into(),
            count(view, |status| status == Status::Running).into(),
            Cell::styled(attention(view), RED),
            name.trim().into(),
            Cell::styled(&view.description, DIM),
            state,
        ]);
    }
    ctx.console().print_table(&table)?;
    for view in &views {
        if let Some(trouble) = &view.trouble {
            ctx.console().warn(&format!("board {}: {trouble}", view.slug));
        }
    }
    Ok(Exit::Success)
}

/// Returns how many tasks are of some statuses; nothing where that is not known.
fn count(view: &BoardView, counts: impl Fn(Status) -> bool) -> String {
    let Some(tasks) = &view.tasks else { return "-".to_owned() };
    let counted = tasks.iter().filter(|(status, _)| counts(**status));
    counted.map(|(_, count)| *count).sum::<u64>().to_string()
}

fn attention(view: &BoardView) -> String {
    view.needs_attention
        .filter(|count| *count > 0)
        .map(|count| count.to_string())
        .unwrap_or_default()
}

pub(super) fn view(ctx: &BoardContext<'_>, board: &ListedBoard) -> BoardView {
    let path = ctx.boards().dir(&board.slug).display().to_string();
    let current = &board.slug == ctx.slug();
    BoardView::new(board, path, current)
}

const CREATE_HELP: &str = "\
An existing board is left as it is.

Examples:
  vestal kanban boards create website --switch
  vestal kanban boards create app --name 'The app' --default-workdir ~/src/app";

/// Create a board.
#[derive(Debug, Args)]
#[command(after_help = CREATE_HELP)]
pub(super) struct CreateArgs {
    /// Slug of the board: a-z, 0-9, _ and -. It cannot be changed later.
    #[arg(value_name = "SLUG")]
    slug: String,

    /// Display name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Description.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Icon, such as an emoji.
    #[arg(long, value_name = "SIGN")]
    icon: Option<String>,

    /// Colour.
    #[arg(long, value_name = "COLOUR")]
    color: Option<String>,

    /// Directory for tasks that need one and name none.
    #[arg(long, value_name = "PATH")]
    default_workdir: Option<PathBuf>,

    /// Make it the current board.
    #[arg(long)]
    switch: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn create(
    ctx: &BoardContext<'_>,
    args: CreateArgs,
) -> Result<Exit, CommandFailure> {
    let slug = named(&args.slug)?;
    let new = NewBoard {
        name: args.name,
        description: args.description,
        icon: args.icon,
        color: args.color,
        default_workdir: args.default_workdir.as_deref().map(absolute).transpose()?,
    };
    let created = if args.switch {
        ctx.boards().create_and_switch(&slug, new).await?
    } else {
        ctx.boards().create(&slug, new).await?
    };
    if args.json {
        let listed = ListedBoard::new(slug.clone(), created.info);
        let mut view = view(ctx, &listed);
        view.current = args.switch || view.current;
        ctx.print(&view)?;
        return Ok(Exit::Success);
    }
    let console = ctx.console();
    let dir = ctx.boards().dir(&slug);
    if created.existed {
        console.print(&format!("board {slug} exists already, in {}", dir.display()))?;
    } else {
        console.print(&format!("created board {slug} in {}", dir.display()))?;
    }
    if args.switch {
        console.note(&format!("{slug} is now the current board"));
    } else if &slug != ctx.slug() {
        console.note(&format!(
            "to use it: vestal kanban --board {slug} …, or from now on: vestal kanban boards switch {slug}"
        ));
    }
    Ok(Exit::Success)
}

const RM_HELP: &str = "\
Without --delete the board is archived; `restore` brings it back. With --delete its tasks, files and
logs are deleted. Refused while tasks of the board are running.

Examples:
  vestal kanban boards rm website
  vestal kanban boards rm website --delete";

/// Archive or delete a board.
#[derive(Debug, Args)]
#[command(after_help = RM_HELP)]
pub(super) struct RmArgs {
    /// Slug of the board.
    #[arg(value_name = "SLUG")]
    slug: String,

    /// Delete it with everything in it, instead of archiving it.
    #[arg(long)]
    delete: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn rm(ctx: &BoardContext<'_>, args: &RmArgs) -> Result<Exit, CommandFailure> {
    let slug = named(&args.slug)?;
    if args.delete {
        ctx.boards().delete(&slug).await.map_err(|error| ctx.explain(error))?;
    } else {
        ctx.boards().remove(&slug).await.map_err(|error| ctx.explain(error))?;
    }
    if args.json {
        ctx.print(&RemovedBoardView { slug: slug.to_string(), deleted: args.delete })?;
    } else if args.delete {
        ctx.console().print(&format!("deleted board {slug}"))?;
    } else {
        ctx.console().print(&format!("archived board {slug}"))?;
        ctx.console().note(&format!("to restore it: vestal kanban boards restore {slug}"));
    }
    if &slug == ctx.slug() && !slug.is_default() {
        ctx.console().note("default is now the current board");
    }
    Ok(Exit::Success)
}

const RESTORE_HELP: &str = "\
Example:
  vestal kanban boards restore website";

/// Restore an archived board.
#[derive(Debug, Args)]
#[command(after_help = RESTORE_HELP)]
pub(super) struct RestoreArgs {
    /// Slug of the board.
    #[arg(value_name = "SLUG")]
    slug: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn restore(
    ctx: &BoardContext<'_>,
    args: &RestoreArgs,
) -> Result<Exit, CommandFailure> {
    let slug = named(&args.slug)?;
    ctx.boards().restore(&slug).await.map_err(|error| ctx.explain(error))?;
    if args.json {
        ctx.print(&RestoredBoardView { slug: slug.to_string(), archived: false })?;
    } else {
        ctx.console().print(&format!("restored board {slug}"))?;
    }
    Ok(Exit::Success)
}

const SWITCH_HELP: &str = "\
Example:
  vestal kanban boards switch website";

/// Choose the board to use by default.
#[derive(Debug, Args)]
#[command(after_help = SWITCH_HELP)]
pub(super) struct SwitchArgs {
    /// Slug of the board.
    #[arg(value_name = "SLUG")]
    slug: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn switch(
    ctx: &BoardContext<'_>,
    args: &SwitchArgs,
) -> Result<Exit, CommandFailure> {
    let slug = named(&args.slug)?;
    ctx.boards().switch(&slug).await.map_err(|error| ctx.explain(error))?;
    if args.json {
        ctx.print(&CurrentBoardView { current: slug.to_string() })?;
    } else {
        ctx.console().print(&format!("{slug} is now the current board"))?;
    }
    if let Some(other) = vestal_board::keys::board_variable(ctx.context.environment())
        && other.trim() != slug.as_str()
    {
        ctx.console().warn(&format!("VESTAL_KANBAN_BOARD names {other} and takes precedence"));
    }
    Ok(Exit::Success)
}

const SHOW_HELP: &str = "\
Examples:
  vestal kanban boards show
  vestal kanban --board website boards show --json";

/// Show the current board.
#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP)]
pub(super) struct ShowArgs {
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn show(ctx: &BoardContext<'_>, args: &ShowArgs) -> Result<Exit, CommandFailure> {
    let slug = ctx.slug().clone();
    let info = match ctx.board_if_any().await? {
        Some(board) => board.info().await?,
        // The board that is always there, and has not been made yet.
        None => {
            let listed = ctx.boards().list(true).await?;
            let found = listed.into_iter().find(|board| board.slug == slug);
            match found {
                Some(found) => found.info,
                None => return Err(CommandFailure::new(format!("board {slug} is not listed"))),
            }
        }
    };
    let view = view(ctx, &ListedBoard::new(slug.clone(), info));
    if args.json {
        ctx.print(&view)?;
        return Ok(Exit::Success);
    }
    let why = match (ctx.is_named(), ctx.chosen_by()) {
        (true, _) => "--board",
        (false, ChosenBy::Environment) => "VESTAL_KANBAN_BOARD",
        (false, ChosenBy::Switch) => "vestal kanban boards switch",
        (false, ChosenBy::Nobody) => "the default",
    };
    let given = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let workdir = view.default_workdir.clone();
    let lines = [
        ("board", slug.to_string()),
        ("name", given(&view.name)),
        ("description", given(&view.description)),
        ("workdir", workdir.unwrap_or_else(|| "-".to_owned())),
        ("path", view.path.clone()),
        ("chosen by", why.to_owned()),
    ];
    for (label, value) in lines {
        let label = ctx.console().paint(DIM, &format!("{label:<12}"));
        ctx.console().print(&format!("{label} {}", text::printable(&value)))?;
    }
    Ok(Exit::Success)
}

const RENAME_HELP: &str = "\
The slug, which scripts and workers use, stays the same.

Example:
  vestal kanban boards rename website 'The new website'";

/// Change the display name of a board.
#[derive(Debug, Args)]
#[command(after_help = RENAME_HELP)]
pub(super) struct RenameArgs {
    /// Slug of the board.
    #[arg(value_name = "SLUG")]
    slug: String,

    /// New display name.
    #[arg(value_name = "NAME")]
    name: String,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) async fn rename(
    ctx: &BoardContext<'_>,
    args: &RenameArgs,
) -> Result<Exit, CommandFailure> {
    let slug = named(&args.slug)?;
    let info = ctx.boards().rename(&slug, &args.name).await.map_err(|error| ctx.explain(error))?;
    if args.json {
        ctx.print(&view(ctx, &ListedBoard::new(slug, info)))?;
    } else {
        let name = text::printable(&info.name);
        ctx.console().print(&format!("board {slug} is now called {name}"))?;
    }
    Ok(Exit::Success)
}

const WORKDIR_HELP: &str = "\
Used by tasks with --workspace dir or worktree that name no path. Without PATH, the setting is
removed.

Examples:
  vestal kanban boards set-default-workdir website ~/src/website
  vestal kanban boards set-default-workdir website";

/// Set the directory for tasks that need one and name none.
#[derive(Debug, Args)]
#[command(after_help = WORKDIR_HELP)]
struct WorkdirArgs {
    /// Slug of the board.
    #[arg(value_name = "SLUG")]
    slug: String,

    /// Directory [default: none, and the setting is removed].
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

async fn set_default_workdir(
    ctx: &BoardContext<'_>,
    args: &WorkdirArgs,
) -> Result<Exit, CommandFailure> {
    let slug = named(&args.slug)?;
    let path = args.path.as_deref().map(absolute).transpose()?;
    let info = ctx
        .boards()
        .set_default_workdir(&slug, path.as_deref())
        .await
        .map_err(|error| ctx.explain(error))?;
    if args.json {
        ctx.print(&view(ctx, &ListedBoard::new(slug, info)))?;
        return Ok(Exit::Success);
    }
    let message = match path {
        Some(path) => format!("tasks of board {slug} work in {} by default", path.display()),
        None => format!("board {slug} no longer has a default directory"),
    };
    ctx.console().print(&message)?;
    Ok(Exit::Success)
}
