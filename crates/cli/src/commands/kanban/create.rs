//! `vestal kanban create` and `edit`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;
use vestal_api::TaskView;
use vestal_board::verbs::{Initial, NewTask, TaskEdit};
use vestal_board::{Status, Task, TaskWorkspace, Time};
use vestal_config::{ProfileName, too_wide};
use vestal_dispatcher::{WorkspaceError, check_workspace};

use super::board_context::BoardContext;
use super::display::{self, ShownChange};
use super::import;
use super::values::{
    TimeArgs, WorkspaceChoice, parse_assignee, parse_object, parse_workspace, text_or_stdin,
};
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::values::parse_duration;

const CREATE_HELP: &str = "\
A task without parents is ready at once; a task with parents waits until they are done. If a task
with the same idempotency key exists, it is returned and nothing is created.

--from reads one JSON object per line, with the members ref, title, body, assignee, parents,
workspace, branch, tenant, priority, triage, blocked, idempotency_key, max_runtime, skills,
max_retries, model, review, reviewer and at. `ref` is a name of your choice; later lines can list it
in `parents`. Either all tasks are created or none; the board is locked for other writers meanwhile.

Examples:
  vestal kanban create 'Write the report' --assignee writer --body 'Two pages, by Friday.'
  vestal kanban create 'Send it' --assignee clerk --parent t_4x7k --priority 5
  vestal kanban create 'Fix the build' --assignee coder --workspace worktree:. --review
  cat spec.md | vestal kanban create 'Build it' --assignee coder --body - --json
  vestal kanban create --from tasks.jsonl";

/// Create a task.
#[derive(Debug, Args)]
#[command(after_help = CREATE_HELP)]
pub(super) struct CreateArgs {
    /// Title, one line.
    #[arg(value_name = "TITLE", required_unless_present = "from", conflicts_with = "from")]
    title: Option<String>,

    /// Create tasks from a file with one JSON object per line; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    /// Description of the work; `-` reads it from standard input.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    body: Option<String>,

    /// Profile that works on the task.
    #[arg(short, long, value_name = "PROFILE")]
    assignee: Option<String>,

    /// Task to wait for; repeatable.
    #[arg(long = "parent", value_name = "ID")]
    parents: Vec<String>,

    #[command(flatten)]
    workspace: WorkspaceArgs,

    /// Tenant: a namespace with its own share of the worker slots.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// Higher runs first; one point is worth ten minutes of waiting.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true)]
    priority: i64,

    /// Create it in triage: no worker starts before it is promoted.
    #[arg(long)]
    triage: bool,

    /// Idempotency key: a second create with the same key returns the existing task.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,

    /// Time limit of a worker: `30s`, `5m`, `2h`, `1d`.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    max_runtime: Option<Duration>,

    /// Name to act under, instead of `user`.
    #[arg(long, value_name = "NAME")]
    created_by: Option<String>,

    /// Skill for the worker to use; repeatable.
    #[arg(long = "skill", value_name = "NAME")]
    skills: Vec<String>,

    /// Give up after this many failures.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    max_retries: Option<u32>,

    /// Model to use instead of the one of the profile.
    #[arg(short, long, value_name = "NAME")]
    model: Option<String>,

    /// Require a review before the task is done.
    #[arg(long)]
    review: bool,

    /// Profile that reviews the work; implies --review.
    #[arg(long, value_name = "PROFILE")]
    reviewer: Option<String>,

    /// Initial status: `running` queues the task as usual, `blocked` waits for a person.
    #[arg(long, value_name = "STATUS", default_value = "running")]
    initial_status: InitialStatusArg,

    #[command(flatten)]
    when: TimeArgs,

    /// Print the task as a JSON object; with --from, a JSON array.
    #[arg(long)]
    json: bool,
}

/// Where the task is worked on.
#[derive(Debug, Args)]
struct WorkspaceArgs {
    /// Where to work: scratch, dir:PATH, worktree or worktree:PATH.
    #[arg(short, long, value_name = "WHERE", value_parser = parse_workspace, default_value = "scratch")]
    workspace: WorkspaceChoice,

    /// Create the directory of --workspace dir:PATH if it does not exist.
    #[arg(long)]
    create_workspace: bool,

    /// Branch of the worktree [default: wt/ID].
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum InitialStatusArg {
    Running,
    Blocked,
}

pub(super) async fn run(ctx: &BoardContext<'_>, args: CreateArgs) -> Result<Exit, CommandFailure> {
    if let Some(file) = &args.from {
        return import::run(ctx, file, args.created_by.as_deref(), args.json).await;
    }
    let json = args.json;
    let by = ctx.authority_of(args.created_by.as_deref());
    let board = ctx.board().await?;
    let mut parents = Vec::with_capacity(args.parents.len());
    for parent in &args.parents {
        parents.push(board.find(parent).await?);
    }
    let body = match args.body {
        Some(text) => text_or_stdin(text).await?,
        None => String::new(),
    };
    let workspace = args.workspace.of_task(ctx).await?;
    let reviewer = args.reviewer.as_deref().map(parse_assignee).transpose()?.flatten();
    let initial = initial(args.triage, args.initial_status, args.when.moment())?;
    let new = NewTask {
        title: args.title.unwrap_or_default(),
        body,
        assignee: args.assignee.as_deref().map(parse_assignee).transpose()?.flatten(),
        parents,
        workspace,
        tenant: args.tenant,
        priority: args.priority,
        initial,
        idempotency_key: args.idempotency_key,
        max_runtime: args.max_runtime,
        skills: args.skills,
        max_retries: args.max_retries,
        model: args.model,
        needs_review: args.review || reviewer.is_some(),
        reviewer,
        ..NewTask::default()
    };
    let created = board.create(&by, new).await?;
    let task = &created.task;
    if json {
        ctx.print(&TaskView::from(task))?;
    } else {
        let verb = if created.existed { "Exists already" } else { "Created" };
        let facts = facts(task);
        ctx.console().print(&format!("{verb} {}  ({})", task.id, facts.join(", ")))?;
    }
    let mut hints = Hints::default();
    hints.add(task);
    hint(ctx, &hints)
}

impl WorkspaceArgs {
    /// Returns the workspace of the new task. One in which no worker could begin is refused.
    async fn of_task(self, ctx: &BoardContext<'_>) -> Result<TaskWorkspace, CommandFailure> {
        let workdir =
            if self.workspace.uses_board_default() { ctx.default_workdir().await? } else { None };
        let home = ctx.settings().home().root();
        let workspace = self.workspace.resolve(home, workdir.as_deref(), self.branch)?;
        if self.create_workspace {
            make_workspace(&workspace)?;
        }
        check_workspace(&workspace, None, ctx.settings().environment()).await.map_err(|error| {
            let failure = CommandFailure::usage(error.to_string());
            match error {
                WorkspaceError::Missing { .. } => failure
                    .advise("correct the path, or add --create-workspace to create the directory"),
                _ => failure.advise("--workspace scratch works in the sandbox of the task alone"),
            }
        })?;
        Ok(workspace)
    }
}

/// Creates the directory that a task is to work in. The places that it may not be are refused first.
fn make_workspace(workspace: &TaskWorkspace) -> Result<(), CommandFailure> {
    let TaskWorkspace::Dir { path } = workspace else {
        return Err(CommandFailure::usage("--create-workspace applies to --workspace dir:PATH"));
    };
    if let Some(reason) = too_wide(path, None) {
        return Err(CommandFailure::usage(format!("cannot work in {}: {reason}", path.display())));
    }
    std::fs::create_dir_all(path)
        .map_err(|error| CommandFailure::io(&format!("create {}", path.display()), &error))
}

/// Returns where a task begins, of what was asked for.
fn initial(
    triage: bool,
    status: InitialStatusArg,
    at: Option<Time>,
) -> Result<Initial, CommandFailure> {
    match (triage, status, at) {
        (false, InitialStatusArg::Running, None) => Ok(Initial::Queue),
        (false, InitialStatusArg::Running, Some(at)) => Ok(Initial::At(at)),
        (true, InitialStatusArg::Running, None) => Ok(Initial::Triage),
        (false, InitialStatusArg::Blocked, None) => Ok(Initial::Blocked),
        _ => Err(CommandFailure::usage(
            "use only one of --triage, --initial-status blocked, --at and --in",
        )),
    }
}

fn facts(task: &Task) -> Vec<String> {
    let mut facts = vec![task.status.to_string()];
    facts.extend(task.assignee.as_ref().map(|assignee| format!("assignee={assignee}")));
    facts.extend(task.wake_at.map(|at| format!("goes on {}", display::moment(at))));
    if task.pending_parents > 0 {
        facts.push(format!(
            "waits for {}",
            crate::console::text::count(task.pending_parents, "task")
        ));
    }
    facts
}

/// What may keep tasks from being worked on, of any number of them.
#[derive(Debug, Default)]
pub(super) struct Hints {
    profiles: BTreeSet<ProfileName>,
    waits: bool,
}

impl Hints {
    pub(super) fn add(&mut self, task: &Task) {
        let named = task.assignee.iter().chain(&task.reviewer);
        for profile in named {
            if !self.profiles.contains(profile) {
                self.profiles.insert(profile.clone());
            }
        }
        self.waits |= task.status == Status::Ready && task.assignee.is_some();
    }
}

/// Says what keeps tasks from being worked on: a profile that is not there, or
/// nobody who dispatches. Each thing once, however many tasks there are.
pub(super) fn hint(ctx: &BoardContext<'_>, hints: &Hints) -> Result<Exit, CommandFailure> {
    for profile in &hints.profiles {
        ctx.warn_of_unknown(profile)?;
    }
    if hints.waits && !vestal_dispatcher::is_watched(ctx.boards(), ctx.slug()) {
        ctx.console().note(
            "no dispatcher watches this board; to start workers: vestal kanban dispatch --watch",
        );
    }
    Ok(Exit::Success)
}

const EDIT_HELP: &str = "\
Only the given fields are changed. An empty text, or `none`, removes a tenant, a model or a
reviewer.

Examples:
  vestal kanban edit t_4x7k --priority 10
  vestal kanban edit t_4x7k --body - < better.md
  vestal kanban edit t_4x7k --result 'it was the cable' --summary 'replaced the cable'";

/// Change a task.
#[derive(Debug, Args)]
#[command(after_help = EDIT_HELP)]
pub(super) struct EditArgs {
    /// Task id, or a unique prefix of it.
    #[arg(value_name = "ID")]
    id: String,

    /// Title, one line.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Description of the work; `-` reads it from standard input.
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    body: Option<String>,

    /// Higher runs first.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<i64>,

    /// Tenant: a namespace with its own share of the worker slots.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// Skills for the worker to use, replacing the current ones; repeatable.
    #[arg(long = "skill", value_name = "NAME")]
    skills: Vec<String>,

    /// Time limit of a worker: `30s`, `5m`, `2h`, `1d`, or `none`.
    #[arg(long, value_name = "TIME", value_parser = parse_limit)]
    max_runtime: Option<RuntimeLimit>,

    /// Give up after this many failures.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    max_retries: Option<u32>,

    /// Model to use instead of the one of the profile.
    #[arg(short, long, value_name = "NAME")]
    model: Option<String>,

    /// Whether a review is required before the task is done: true or false.
    #[arg(long, value_name = "BOOL")]
    review: Option<bool>,

    /// Profile that reviews the work.
    #[arg(long, value_name = "PROFILE")]
    reviewer: Option<String>,

    /// Result of the work; `-` reads it from standard input.
    #[arg(long, value_name = "TEXT")]
    result: Option<String>,

    /// Summary of the last run.
    #[arg(long, value_name = "TEXT")]
    summary: Option<String>,

    /// Metadata of the last run, a JSON object.
    #[arg(long, value_name = "JSON", value_parser = parse_object)]
    metadata: Option<Value>,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// A time limit, or none.
#[derive(Debug, Clone, Copy)]
struct RuntimeLimit(Option<Duration>);

fn parse_limit(text: &str) -> Result<RuntimeLimit, String> {
    if text == "none" {
        Ok(RuntimeLimit(None))
    } else {
        parse_duration(text).map(|time| RuntimeLimit(Some(time)))
    }
}

impl EditArgs {
    async fn edit(self) -> Result<TaskEdit, CommandFailure> {
        let body = match self.body {
            Some(text) => Some(text_or_stdin(text).await?),
            None => None,
        };
        let result = match self.result {
            Some(text) => Some(text_or_stdin(text).await?),
            None => None,
        };
        let reviewer = self.reviewer.as_deref().map(parse_assignee).transpose()?;
        Ok(TaskEdit {
            title: self.title,
            body,
            priority: self.priority,
            tenant: self.tenant.map(given),
            skills: (!self.skills.is_empty())
                .then(|| self.skills.into_iter().filter_map(given).collect()),
            max_runtime: self.max_runtime.map(|RuntimeLimit(limit)| limit),
            max_retries: self.max_retries.map(Some),
            model: self.model.map(given),
            needs_review: self.review,
            reviewer,
            result,
            summary: self.summary,
            metadata: self.metadata,
        })
    }
}

/// Returns a text, or nothing where it says that there is none.
fn given(text: String) -> Option<String> {
    (text != "none" && !text.trim().is_empty()).then_some(text)
}

pub(super) async fn edit(ctx: &BoardContext<'_>, args: EditArgs) -> Result<Exit, CommandFailure> {
    let (board, id) = ctx.task(&args.id).await?;
    let json = args.json;
    let edit = args.edit().await?;
    if edit == TaskEdit::default() {
        return Err(CommandFailure::usage("nothing to change")
            .advise("for example: vestal kanban edit ID --priority 5; --help lists the options"));
    }
    if let Some(Some(reviewer)) = &edit.reviewer {
        ctx.warn_of_unknown(reviewer)?;
    }
    let task = board.edit(&ctx.by(), &id, edit).await?;
    display::finish(ctx, &board, ShownChange::alone(task, "changed"), json).await
}
