//! What becomes of a profile's sandboxes when it goes or gets another name.
//!
//! A sandbox is known by its home's id, its profile's name and its task. So a
//! profile takes its sandboxes along when it is deleted, and a renamed one
//! begins with new instances in the old workspaces and homes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use vestal_config::Home;
use vestal_sandbox::{Engine, Error, FilesOnRemoval, Summary, SummaryState, Task};

use crate::console::text;
use crate::context::Context;
use crate::error::Failure;
use crate::values::quoted;

/// The sandboxes of a profile.
pub(super) struct Sandboxes {
    engine: Engine,
    own: Vec<Summary>,
}

impl Sandboxes {
    /// Looks at a profile's sandboxes. None of them may be out of reach: what
    /// cannot be asked cannot be removed either.
    pub(super) async fn of(context: &Context, home: &Home) -> Result<Option<Self>, Failure> {
        // A home without an id never had a sandbox.
        if !home.dir().join("home.json").exists() {
            return Ok(None);
        }
        let engine = context.engine_of(home.clone())?;
        let dir = home.sandboxes_dir();
        let hidden = recorded(&dir);
        if engine.sandboxes_dir() != dir && !hidden.is_empty() {
            return Err(left(&dir, &hidden).advise(format!(
                "terminal.sandbox_dir hides them: see them with vestal --set terminal.sandbox_dir={} ps",
                quoted(&dir.to_string_lossy())
            )));
        }
        let listing = context.console.while_waiting("looking for sandboxes", engine.list());
        let mut own = listing.await?;
        own.retain(|summary| summary.profile == home.profile().as_str());
        let lost: Vec<String> = own
            .iter()
            .filter(|summary| summary.state == SummaryState::Unknown)
            .map(|summary| {
                let trouble = summary.trouble.as_deref().unwrap_or("it cannot be asked");
                format!("{} on {}: {trouble}", summary.task, summary.backend)
            })
            .collect();
        if !lost.is_empty() {
            let count = text::count(lost.len() as u64, "sandbox");
            return Err(Failure::new(format!(
                "{count} of profile {} cannot be reached; nothing was changed",
                home.profile()
            ))
            .advise(lost.join("\n"))
            .advise("start the engine, or see what works here: vestal doctor"));
        }
        Ok(Some(Self { engine, own }))
    }

    /// Says of each sandbox what goes with its instance.
    pub(super) fn plans(&self) -> Vec<String> {
        self.own.iter().filter(|own| own.state != SummaryState::Absent).map(plan).collect()
    }

    fn tasks(&self) -> Result<BTreeSet<Task>, Failure> {
        let parse = |own: &Summary| own.task.parse::<Task>();
        let parsed: Result<_, _> = self.own.iter().map(parse).collect();
        parsed.map_err(|error| Failure::new(error.to_string()))
    }

    /// Removes every sandbox with its files, also files whose sandbox is gone,
    /// and returns the tasks.
    pub(super) async fn remove(
        self,
        context: &Context,
        home: &Home,
    ) -> Result<Vec<String>, Failure> {
        let mut removed = Vec::new();
        for task in self.tasks()? {
            self.remove_one(context, &task, FilesOnRemoval::Remove).await?;
            removed.push(task.to_string());
        }
        let dir = home.sandboxes_dir();
        // Another directory may be shared, and hold files of others.
        let own = self.engine.sandboxes_dir() == dir;
        for name in directories(&dir).into_iter().filter(|_| own) {
            // Files that a sandbox left may be another user's; only its backend
            // can delete those.
            if let Ok(task) = name.parse::<Task>() {
                match self.engine.remove(&task, FilesOnRemoval::Remove).await {
                    Ok(_) | Err(Error::NoSandbox { .. }) => {}
                    Err(error) => return Err(Failure::from(error).about(&name)),
                }
            }
        }
        match recorded(&dir) {
            rest if rest.is_empty() => Ok(removed),
            rest => Err(left(&dir, &rest)),
        }
    }

    /// Removes every instance and forgets the sandboxes under their old name.
    /// Workspaces, homes and snapshots stay for new ones.
    pub(super) async fn free(self, context: &Context) -> Result<usize, Failure> {
        let mut instances = 0;
        for task in self.tasks()? {
            instances += self.remove_one(context, &task, FilesOnRemoval::Keep).await?;
        }
        for own in &self.own {
            // The record names the profile, and would be taken for one that was
            // copied from elsewhere. Without it the directory is one of files
            // that wait for a sandbox.
            let record = own.dir.join("sandbox.json");
            match fs::remove_file(&record) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Failure::io(&format!("remove {}", record.display()), &error));
                }
                _ => {}
            }
        }
        Ok(instances)
    }

    /// Refuses to rename what a backend keeps under the profile's old name.
    pub(super) async fn refuse_volumes(&self) -> Result<(), Failure> {
        for own in &self.own {
            let in_volumes = match own.state {
                // Nothing is removed where there is no instance; what is kept is told.
                SummaryState::Absent => {
                    let task = own.task.parse().map_err(|_| Failure::new("a task has no name"))?;
                    let removal = self.engine.remove(&task, FilesOnRemoval::Keep).await?;
                    !removal.kept_volumes.is_empty()
                }
                _ => own.description.transport.as_deref() == Some("exec"),
            };
            if in_volumes {
                return Err(Failure::new(format!(
                    "the files of sandbox {} are in volumes of the container engine, which are found by the name of the profile; nothing was changed",
                    own.task
                ))
                .advise("copy out what you need with `vestal cp`, then remove it with `vestal rm --files`"));
            }
        }
        Ok(())
    }

    async fn remove_one(
        &self,
        context: &Context,
        task: &Task,
        files: FilesOnRemoval,
    ) -> Result<usize, Failure> {
        let what = format!("removing {task}");
        let removing = self.engine.remove(task, files);
        match context.console.while_waiting(&what, removing).await {
            Ok(removal) => Ok(removal.instances),
            // Another process has removed it.
            Err(Error::NoSandbox { .. }) => Ok(0),
            Err(error) => Err(Failure::from(error).about(task.as_str())),
        }
    }
}

fn plan(own: &Summary) -> String {
    let jobs = text::count(u64::from(own.jobs_running), "running job");
    let is_a_system = own.description.image.is_some() || own.description.tier.is_some();
    let installed = if is_a_system { ", with all that was installed in it" } else { "" };
    format!("{}: the sandbox on {} with {jobs} goes{installed}", own.task, own.backend)
}

/// Says that sandboxes are in the way of what was asked for.
fn left(dir: &Path, names: &[String]) -> Failure {
    let names = names.join(", ");
    Failure::new(format!(
        "there are sandboxes left in {}: {names}; the profile stays",
        dir.display()
    ))
}

/// Returns the names of the directories that are a sandbox's.
fn recorded(dir: &Path) -> Vec<String> {
    let mut names = directories(dir);
    names.retain(|name| dir.join(name).join("sandbox.json").exists());
    names
}

/// Returns the names of the directories that are not hidden.
fn directories(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect()
}
