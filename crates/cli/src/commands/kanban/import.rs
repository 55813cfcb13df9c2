//! Making many tasks at once of lines of JSON.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use vestal_api::TaskView;
use vestal_board::verbs::{Initial, NewTask};
use vestal_board::{Board, TaskId};

use super::board_context::BoardContext;
use super::create::{self, Hints};
use super::values::{self, STDIN, WorkspaceChoice, parse_assignee, parse_moment, parse_workspace};
use crate::console::{JsonList, text};
use crate::error::CommandFailure;
use crate::exit::Exit;
use crate::values::parse_duration;

/// Bytes of standard input that are read at most; a file may have any number.
const MOST: u64 = 256 << 20;
/// Bytes of a line: more than any task may have.
const LONGEST: u64 = 8 << 20;

/// A task, as a line has it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ImportLine {
    /// What later lines call it among their parents. It is not kept.
    #[serde(rename = "ref")]
    name: Option<String>,
    title: String,
    body: String,
    assignee: Option<String>,
    parents: Vec<String>,
    workspace: Option<String>,
    branch: Option<String>,
    tenant: Option<String>,
    priority: i64,
    triage: bool,
    blocked: bool,
    idempotency_key: Option<String>,
    max_runtime: Option<String>,
    skills: Vec<String>,
    max_retries: Option<u32>,
    model: Option<String>,
    review: bool,
    reviewer: Option<String>,
    at: Option<String>,
}

/// Where the lines come from. They are read twice: once to find mistakes before anything is made,
/// once to make the tasks. So at no time are all of them in memory as tasks.
enum Lines {
    File(PathBuf),
    Stdin(String),
}

impl Lines {
    async fn of(file: &Path) -> Result<Self, CommandFailure> {
        if file.as_os_str() == STDIN {
            return Ok(Self::Stdin(values::stdin_up_to(MOST, "standard input").await?));
        }
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            // A pipe can be read once only.
            return Ok(Self::Stdin(values::file_up_to(file, MOST).await?));
        }
        Ok(Self::File(file.to_owned()))
    }

    fn open(&self) -> Result<ImportReader<'_>, CommandFailure> {
        let from: Box<dyn BufRead + '_> = match self {
            Self::File(path) => {
                let file = File::open(path);
                let failed =
                    |error| CommandFailure::io(&format!("read {}", path.display()), &error);
                Box::new(BufReader::new(file.map_err(failed)?))
            }
            Self::Stdin(text) => Box::new(text.as_bytes()),
        };
        Ok(ImportReader { from, number: 0, line: String::new() })
    }
}

struct ImportReader<'l> {
    from: Box<dyn BufRead + 'l>,
    number: usize,
    line: String,
}

impl ImportReader<'_> {
    /// Returns the next line that says something.
    fn next(&mut self) -> io::Result<Option<&str>> {
        loop {
            self.line.clear();
            let mut bounded = io::Read::take(&mut self.from, LONGEST);
            if bounded.read_line(&mut self.line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.line.len() as u64 == LONGEST && !self.line.ends_with('\n') {
                return Err(io::Error::other(format!("is longer than {} MiB", LONGEST >> 20)));
            }
            if !self.line.trim().is_empty() {
                return Ok(Some(&self.line));
            }
        }
    }
}

/// A file of tasks.
struct Import<'d> {
    board: Board,
    workdir: Option<PathBuf>,
    home: &'d Path,
    lines: Lines,
    /// What the file is called.
    named: String,
    /// The tasks of the board that lines wait for.
    parents: HashMap<String, TaskId>,
}

/// Makes the tasks of a file, all of them or none.
pub(super) async fn run(
    ctx: &BoardContext<'_>,
    file: &Path,
    created_by: Option<&str>,
    json: bool,
) -> Result<Exit, CommandFailure> {
    let lines = Lines::of(file).await?;
    let named = match &lines {
        Lines::Stdin(_) if file.as_os_str() == STDIN => "standard input".to_owned(),
        _ => file.display().to_string(),
    };
    let workdir = ctx.default_workdir().await?;
    let board = ctx.board().await?;
    let home = ctx.settings().home().root();
    let mut import = Import { board, workdir, home, lines, named, parents: HashMap::new() };
    import.check().await?;
    let by = ctx.authority_of(created_by);
    let mut creation = import.board.creation(&by).await?;
    let (mut ids, mut existed) = (Vec::new(), 0);
    let mut names: HashMap<String, TaskId> = HashMap::new();
    let mut hints = Hints::default();
    let mut lines = import.lines.open()?;
    while let Some((line, place)) = import.line(&mut lines)? {
        let find = |parent: &String| names.get(parent).or_else(|| import.parents.get(parent));
        let parents: Option<Vec<TaskId>> =
            line.parents.iter().map(|own| find(own).cloned()).collect();
        let changed =
            || CommandFailure::new(format!("{place}: the file was changed while it was read"));
        let parents = parents.ok_or_else(changed).map_err(no_task)?;
        let name = line.name.clone();
        let new = import.task(line, parents).map_err(|failure| no_task(failure.about(&place)))?;
        let created = creation.add(&new).await;
        let created =
            created.map_err(|error| no_task(CommandFailure::from(error).about(&place)))?;
        existed += u64::from(created.existed);
        hints.add(&created.task);
        names.extend(name.map(|name| (name, created.task.id.clone())));
        ids.push(created.task.id);
    }
    creation.commit().await?;
    if json {
        // As they are now that all of them are there.
        let mut read = import.board.read().await?;
        let mut list = JsonList::on_stdout();
        for id in &ids {
            if let Some(task) = read.task(id).await? {
                list.push(&TaskView::from(&task))?;
            }
        }
        list.end()?;
    } else {
        let made = text::count(ids.len() as u64 - existed, "task");
        let more = if existed > 0 { format!("; {existed} existed already") } else { String::new() };
        ctx.console().print(&format!("Created {made}{more}"))?;
    }
    create::hint(ctx, &hints)
}

/// Says what is wrong with a line. Its number is the file's, not that of the parser,
/// which sees one line only.
fn within_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) if error.column() > 0 => format!("{what}, column {}", error.column()),
        _ => text,
    }
}

fn no_task(failure: CommandFailure) -> CommandFailure {
    failure.advise("no task was created")
}

impl Import<'_> {
    /// Looks for mistakes before anything is made and anybody has to wait for it.
    async fn check(&mut self) -> Result<(), CommandFailure> {
        let mut lines = self.lines.open()?;
        let mut names = BTreeSet::new();
        let mut count = 0_u64;
        while let Some((line, place)) = self.line(&mut lines)? {
            count += 1;
            for parent in &line.parents {
                if !names.contains(parent) && !self.parents.contains_key(parent) {
                    let found = self.board.find(parent).await;
                    let found = found
                        .map_err(|error| no_task(CommandFailure::from(error).about(&place)))?;
                    self.parents.insert(parent.clone(), found);
                }
            }
            if let Some(name) = &line.name {
                // A short name may also be the beginning of a task's, which an earlier line was
                // taken to mean.
                if self.parents.contains_key(name) {
                    let late = format!("{place}: an earlier line waits for the ref {name:?}");
                    return Err(no_task(CommandFailure::usage(late))
                        .advise("a ref must come before the lines that wait for it"));
                }
                if !names.insert(name.clone()) {
                    let again = format!("{place}: an earlier line has the ref {name:?} already");
                    return Err(no_task(CommandFailure::usage(again)));
                }
            }
            let new = self.task(line, Vec::new());
            let checked = new.and_then(|new| Ok(new.check()?));
            checked.map_err(|failure| no_task(failure.about(&place)))?;
        }
        if count == 0 {
            return Err(CommandFailure::usage(format!("no task in {}", self.named)));
        }
        Ok(())
    }

    /// Reads the next line, and says where it is.
    fn line(
        &self,
        lines: &mut ImportReader<'_>,
    ) -> Result<Option<(ImportLine, String)>, CommandFailure> {
        let read = match lines.next() {
            Ok(None) => return Ok(None),
            Ok(Some(text)) => serde_json::from_str(text)
                .map_err(|error| CommandFailure::usage(within_line(&error))),
            Err(error) => Err(CommandFailure::io("read it", &error)),
        };
        let place = format!("{}, line {}", self.named, lines.number);
        let line = read.map_err(|failure| no_task(failure.about(&place)))?;
        Ok(Some((line, place)))
    }

    fn task(&self, line: ImportLine, parents: Vec<TaskId>) -> Result<NewTask, CommandFailure> {
        let wrong = |what: &str, reason: String| CommandFailure::usage(format!("{what}: {reason}"));
        let place = match &line.workspace {
            Some(text) => parse_workspace(text).map_err(|reason| wrong("workspace", reason))?,
            None => WorkspaceChoice::Scratch,
        };
        let max_runtime = line.max_runtime.as_deref().map(parse_duration).transpose();
        let at = line.at.as_deref().map(parse_moment).transpose();
        let reviewer = line.reviewer.as_deref().map(parse_assignee).transpose()?.flatten();
        let at = at.map_err(|reason| wrong("at", reason))?;
        let initial = match (line.triage, line.blocked, at) {
            (false, false, None) => Initial::Queue,
            (false, false, Some(at)) => Initial::At(at),
            (true, false, None) => Initial::Triage,
            (false, true, None) => Initial::Blocked,
            _ => return Err(CommandFailure::usage("use only one of triage, blocked and at")),
        };
        Ok(NewTask {
            title: line.title,
            body: line.body,
            assignee: line.assignee.as_deref().map(parse_assignee).transpose()?.flatten(),
            parents,
            workspace: place.resolve(self.home, self.workdir.as_deref(), line.branch)?,
            tenant: line.tenant,
            priority: line.priority,
            initial,
            idempotency_key: line.idempotency_key,
            max_runtime: max_runtime.map_err(|reason| wrong("max_runtime", reason))?,
            skills: line.skills,
            max_retries: line.max_retries,
            model: line.model,
            needs_review: line.review || reviewer.is_some(),
            reviewer,
            ..NewTask::default()
        })
    }
}
