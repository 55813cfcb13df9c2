//! `vestal migrate`: takes over a home of the existing Python system.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use vestal_config::Home;
use vestal_migrate::{
    Action, ItemKind, ItemOutcome, MigrateError, Migration, MigrationOptions, MigrationPlan,
    MigrationView, PlanItem,
};

use crate::confirm;
use crate::console::{Cell, DIM, RED, Table, YELLOW, status, text};
use crate::context::Context;
use crate::error::CommandFailure;
use crate::exit::Exit;

/// Things of one kind with the same fate that are listed one by one; of more, their number is shown.
const LISTED: usize = 5;

const AFTER_HELP: &str = "\
Takes over settings, secrets, profiles, persona, memory, skills, conversations, boards and schedules
of hermes-agent 0.15 to 0.19. Without -y it only shows what it would do, and on a terminal asks. The
other home is never changed. It can be repeated: what is here already is skipped, what you changed or
removed here since stays so. The exit code is 1 if something could not be read or taken over.

Examples:
  vestal migrate
  vestal migrate -y
  vestal migrate --from /srv/hermes --only conversation,task --dry-run --json";

/// Take over a home of hermes-agent.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct MigrateArgs {
    /// Home to take over [default: `$HERMES_HOME`, else `~/.hermes`].
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,

    /// Show what would be done, and do nothing.
    #[arg(short = 'n', long, conflicts_with = "yes")]
    dry_run: bool,

    /// Do it without asking.
    #[arg(short, long, visible_alias = "apply")]
    yes: bool,

    /// Kinds of things to take over, and no others.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    only: Vec<ItemKind>,

    /// Kinds of things to leave out.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    skip: Vec<ItemKind>,

    /// Copy what is in its Docker or Podman containers into sandboxes of the same tasks. The containers
    /// stay as they are.
    #[arg(long)]
    containers: bool,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(context: &Context, args: MigrateArgs) -> Result<Exit, CommandFailure> {
    let mut kinds: BTreeSet<ItemKind> = ItemKind::ALL.iter().copied().collect();
    if !args.only.is_empty() {
        kinds = args.only.iter().copied().collect();
    }
    kinds.retain(|kind| !args.skip.contains(kind));
    let options = MigrationOptions {
        from: source(context, args.from.clone())?,
        to: target(context)?,
        schema: vestal_api::schema(),
        kinds,
        containers: args.containers.then(|| context.environment().clone()),
    };
    let migration = Migration::new(options)?;
    let console = context.console;
    let mut total = String::new();
    if !args.yes {
        let planned = Box::pin(migration.plan());
        let plan = console.while_waiting("reading the other home", planned).await?;
        show(context, &plan, &args, false)?;
        let is_asked = !args.dry_run && !args.json && plan.pending() > 0;
        if !is_asked || !confirm::is_possible() {
            if is_asked {
                console.note("nothing was changed; to do it: vestal migrate -y");
            }
            return Ok(Exit::Success);
        }
        total = format!(" of {}", plan.pending());
        if !console.ask(&format!("Take over {}?", text::count(plan.pending(), "thing"))) {
            return Ok(Exit::No);
        }
    }
    let mut done = 0_usize;
    let shows = status::is_possible() && !args.json;
    let applied = Box::pin(migration.apply(|item| {
        done += 1;
        if shows {
            status::show(&format!("{done}{total}: {} {}", item.kind, item.from));
        }
        // Ctrl-C ends the program at any step; the next one goes on from there.
        ControlFlow::Continue(())
    }))
    .await;
    if shows {
        status::clear();
    }
    let applied = applied?;
    show(context, &applied, &args, true)?;
    Ok(if applied.is_complete() { Exit::Success } else { Exit::No })
}

/// Returns the home that is taken over.
fn source(context: &Context, given: Option<PathBuf>) -> Result<PathBuf, CommandFailure> {
    if let Some(path) = given {
        return Ok(path);
    }
    let environment = context.environment();
    if let Some(path) = environment.non_empty("HERMES_HOME") {
        return Ok(PathBuf::from(path));
    }
    let home = environment.user_home().map(|home| home.join(".hermes"));
    home.ok_or_else(|| {
        CommandFailure::usage("there is no home directory; name the other home with --from")
    })
}

/// Returns the profile that it goes to: `default`, unless one is named.
fn target(context: &Context) -> Result<Home, CommandFailure> {
    match context.profile() {
        Some(_) => context.home(),
        None => Ok(Home::locate_root(context.environment())?),
    }
}

fn show(
    context: &Context,
    plan: &MigrationPlan,
    args: &MigrateArgs,
    applied: bool,
) -> Result<(), CommandFailure> {
    let console = context.console;
    for warning in &plan.warnings {
        console.warn(warning);
    }
    if args.json {
        return console.print_json(&MigrationView::new(plan, applied));
    }
    let mut table = Table::new(&["PROFILE", "WHAT", "FROM", "TO", "ACTION", "WHY"]);
    for group in groups(&plan.items) {
        row(&mut table, &group);
    }
    console.print_table(&table)?;
    let counts = plan.counts();
    let number = |action| counts.get(&action).copied().unwrap_or(0);
    let pending = number(Action::Take) + number(Action::Update);
    let verb = if applied { "taken over" } else { "to take over" };
    let pending = pending - u64::try_from(plan.failed()).unwrap_or(0);
    let mut parts = vec![format!("{} {verb}", text::count(pending, "thing"))];
    for (action, what) in [
        (Action::Present, "here already"),
        (Action::Keep, "kept as they are here"),
        (Action::Leave, "left"),
        (Action::Broken, "unreadable"),
    ] {
        if number(action) > 0 {
            parts.push(format!("{} {what}", number(action)));
        }
    }
    if plan.failed() > 0 {
        parts.push(format!("{} failed", plan.failed()));
    }
    console.note(&parts.join(", "));
    Ok(())
}

/// Puts things together that are alike, so that a table of thousands can be read.
fn groups(items: &[PlanItem]) -> Vec<Vec<&PlanItem>> {
    let is_many = |kind| {
        matches!(
            kind,
            ItemKind::Conversation | ItemKind::Task | ItemKind::Attachment | ItemKind::Note
        )
    };
    let alike = |a: &PlanItem, b: &PlanItem| {
        is_many(a.kind)
            && (a.kind, &a.profile, a.action, &a.outcome) == (b.kind, &b.profile, b.action, &b.outcome)
            // Where it does not come, each has its own reason.
            && (matches!(a.action, Action::Take | Action::Update | Action::Present) || a.reason == b.reason)
    };
    let mut groups: Vec<Vec<&PlanItem>> = Vec::new();
    for item in items {
        let last = groups.iter_mut().rev().find(|group| group.iter().any(|own| alike(own, item)));
        match last {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    let (few, many): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| group.len() <= LISTED);
    let mut shown: Vec<Vec<&PlanItem>> =
        few.into_iter().flatten().map(|item| vec![item]).chain(many).collect();
    let place = |group: &Vec<&PlanItem>| {
        items.iter().position(|item| group.first().is_some_and(|own| std::ptr::eq(*own, item)))
    };
    shown.sort_by_key(place);
    shown
}

fn row(table: &mut Table, group: &[&PlanItem]) {
    let Some(first) = group.first() else { return };
    let (action, style, reason) = match &first.outcome {
        Some(ItemOutcome::Done) => ("done", None, first.reason.clone()),
        Some(ItemOutcome::Failed(reason)) => ("failed", Some(RED), reason.clone()),
        None => match first.action {
            Action::Take | Action::Update => (first.action.as_str(), None, first.reason.clone()),
            Action::Present => ("present", Some(DIM), first.reason.clone()),
            Action::Leave => ("leave", Some(DIM), first.reason.clone()),
            Action::Keep => ("keep", Some(YELLOW), first.reason.clone()),
            Action::Broken => ("broken", Some(RED), first.reason.clone()),
        },
    };
    let (from, to, reason) = if group.len() > 1 {
        let same = group.iter().all(|item| item.reason == first.reason);
        let reason = if same { reason } else { String::new() };
        (text::count(group.len(), first.kind.as_str()), String::new(), reason)
    } else {
        (first.from.clone(), first.to.clone(), reason)
    };
    let cell = |text: &str| match style {
        Some(style) => Cell::styled(text, style),
        None => text.into(),
    };
    table.row(vec![
        cell(&first.profile),
        cell(first.kind.as_str()),
        cell(&from),
        cell(if to.is_empty() { "-" } else { &to }),
        cell(action),
        cell(if reason.is_empty() { "-" } else { &reason }),
    ]);
}

impl From<MigrateError> for CommandFailure {
    fn from(error: MigrateError) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            MigrateError::NoHome { .. } | MigrateError::Own { .. } => {
                failure.with_exit(Exit::Usage)
            }
            MigrateError::Busy => failure.advise("wait for it, and try again"),
            MigrateError::Record { .. } | MigrateError::Newer { .. } => failure,
        }
    }
}
