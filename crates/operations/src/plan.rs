//! What an action takes away and what it leaves, for the question before it.

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use vestal_sandbox::backend::Confinement;
use vestal_sandbox::{
    CopyError, Engine, Error, FilesOnRemoval, SandboxSummary, Snapshot, SnapshotName, SummaryState,
    TaskName, keys,
};

use crate::action::{Action, bytes_in_words};

/// Says what goes and what stays when an action is done, in parts of a sentence.
#[boxed]
pub async fn plan(engine: &Engine, task: &TaskName, action: &Action) -> Result<Vec<String>, Error> {
    match action {
        Action::Remove { files } => removal(engine, task, *files).await,
        Action::Restore { name, .. } => {
            let snapshot = snapshot(engine, task, name).await?;
            let current = current(engine, task).await.ok();
            Ok(restore_parts(&snapshot, current.as_ref(), Timestamp::now()))
        }
        Action::Rebuild { backend, .. } => {
            let current = current(engine, task).await?;
            let confined = engine.confinement(&current.backend) != Some(Confinement::None);
            let persistent = engine.settings().get(&keys::CONTAINER_PERSISTENT);
            let is_remote =
                |backend: &str| engine.confinement(backend) == Some(Confinement::Remote);
            let to = backend.as_deref().filter(|to| *to != current.backend);
            let files = if current.has_files_in_memory() {
                FilesOutlook::InMemory
            } else if to.is_some_and(|to| is_remote(to) || is_remote(&current.backend)) {
                FilesOutlook::Carried
            } else if persistent.is_ok_and(|persistent| persistent.value) {
                FilesOutlook::Kept
            } else {
                FilesOutlook::OutOfSight
            };
            Ok(rebuild_parts(&current, backend.as_deref(), confined, files))
        }
        Action::RemoveSnapshot { name } => {
            let Snapshot { name, files, bytes, created_at, .. } =
                snapshot(engine, task, name).await?;
            let age = ago(created_at, Timestamp::now());
            let size = format!("{}, {}", count(files, "file"), bytes_in_words(bytes));
            Ok(vec![
                format!("snapshot {name} of {age} ({size}) will be deleted"),
                "the sandbox and its forks are not touched".to_owned(),
            ])
        }
        Action::Snapshot { .. } => {
            let mut parts = vec!["workspace, home and installed software are copied".to_owned()];
            parts.extend(standstill(engine, task).await);
            Ok(parts)
        }
        Action::Fork { snapshot: None, .. } => {
            let mut parts = vec![fork_part().to_owned()];
            parts.extend(standstill(engine, task).await);
            Ok(parts)
        }
        Action::Fork { snapshot: Some(name), .. } => {
            snapshot(engine, task, name).await?;
            Ok(vec![fork_part().to_owned(), "the original is not touched".to_owned()])
        }
        Action::Stop => Ok(stop_parts(&current(engine, task).await?)),
        Action::Start => {
            current(engine, task).await?;
            Ok(vec!["it is started with the current settings".to_owned()])
        }
    }
}

/// Says what a copy of a sandbox as it is does to it.
async fn standstill(engine: &Engine, task: &TaskName) -> Vec<String> {
    let Ok(summary) = current(engine, task).await else { return Vec::new() };
    let mut parts = Vec::new();
    if let Some(mount) = &summary.overrides.mount {
        parts.push(format!("{}, its /workspace, is yours and is not copied", mount.display()));
    }
    if summary.state == SummaryState::Running {
        parts.push("it is stopped during the copy, and its next use starts it again".to_owned());
        parts.push("shell sessions are kept".to_owned());
    }
    parts
}

const fn fork_part() -> &'static str {
    "the new sandbox has the same backend, workspace, home, installed software and mounts, and no \
     jobs, shell sessions or snapshots"
}

/// Returns the sandbox that all processes share; an error where there is none.
async fn current(engine: &Engine, task: &TaskName) -> Result<SandboxSummary, Error> {
    let found = engine.inspect(task).await?;
    let shared = found.into_iter().find(|summary| !summary.owned);
    shared.ok_or_else(|| Error::NoSandbox { task: task.to_string() })
}

async fn snapshot(
    engine: &Engine,
    task: &TaskName,
    name: &SnapshotName,
) -> Result<Snapshot, Error> {
    let all = engine.snapshots(Some(task)).await?;
    let found = all.into_iter().find(|snapshot| snapshot.name == *name);
    found.ok_or_else(|| {
        CopyError::NoSnapshot { task: task.to_string(), name: name.to_string() }.into()
    })
}

fn stop_parts(summary: &SandboxSummary) -> Vec<String> {
    let mut parts = Vec::new();
    if summary.jobs_running > 0 {
        let jobs = count(summary.jobs_running, "running job");
        parts.push(format!("{jobs} will be asked to end, and killed after a while"));
    }
    parts.push(if summary.has_files_in_memory() {
        "workspace and home are in memory and will be lost".to_owned()
    } else {
        "kept: files, installed software and shell sessions".to_owned()
    });
    parts.push("the next use starts it again, with the settings in effect then".to_owned());
    parts
}

async fn removal(
    engine: &Engine,
    task: &TaskName,
    files: FilesOnRemoval,
) -> Result<Vec<String>, Error> {
    let dir = engine.sandboxes_dir().join(engine.key(task).dir_name());
    let kept: Vec<String> = ["workspace", "home", "snapshots"]
        .map(|name| dir.join(name))
        .into_iter()
        .filter(|path| path.is_dir())
        .map(|path| path.display().to_string())
        .collect();
    let summaries = match engine.inspect(task).await {
        Ok(summaries) => summaries,
        // Instances that ended with their processes leave their files here.
        Err(Error::NoSandbox { .. }) if !kept.is_empty() => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut parts: Vec<String> = summaries.iter().map(removal_part).collect();
    if summaries.is_empty() {
        parts.push("it has files and no sandbox".to_owned());
    } else {
        parts.push("shell sessions and job logs will be removed".to_owned());
    }
    let in_volumes =
        summaries.iter().any(|summary| summary.description.transport.as_deref() == Some("exec"));
    parts.push(match (in_volumes, kept.is_empty(), files) {
        (true, _, FilesOnRemoval::Remove) => {
            "its volumes in the container engine will be removed too".to_owned()
        }
        (true, _, FilesOnRemoval::Keep) => {
            "kept: its volumes in the container engine, where its files are".to_owned()
        }
        (false, false, FilesOnRemoval::Remove) => {
            format!("these files will be removed too: {}", kept.join(", "))
        }
        (false, false, FilesOnRemoval::Keep) => format!("kept: {}", kept.join(", ")),
        (false, true, _) => {
            "it has no files of its own; files of yours that its commands made stay".to_owned()
        }
    });
    for summary in &summaries {
        if let Some(mount) = &summary.overrides.mount {
            parts.push(format!("{}, its /workspace, is yours and stays", mount.display()));
        }
    }
    Ok(parts)
}

/// Says what of one instance goes.
fn removal_part(summary: &SandboxSummary) -> String {
    let description = &summary.description;
    let on = match &description.name {
        Some(name) => format!("on {} (container {name})", summary.backend),
        None => format!("on {}", summary.backend),
    };
    let rest = if description.image.is_some() || description.tier.is_some() {
        ", with everything installed in it"
    } else {
        ""
    };
    match summary.state {
        SummaryState::Running => {
            let jobs = count(summary.jobs_running, "running job");
            format!("the running sandbox {on} with {jobs} will be removed{rest}")
        }
        SummaryState::Unresponsive => {
            format!("the sandbox {on}, which does not answer, will be removed{rest}")
        }
        SummaryState::Stopped => format!("the stopped sandbox {on} will be removed{rest}"),
        SummaryState::Absent => "its record will be removed".to_owned(),
        SummaryState::Unknown => {
            format!("the sandbox {on}, whose state is unknown, will be removed{rest}")
        }
    }
}

fn restore_parts(
    snapshot: &Snapshot,
    current: Option<&SandboxSummary>,
    now: Timestamp,
) -> Vec<String> {
    let Snapshot { task, name, system, created_at, .. } = snapshot;
    let what = if *system {
        "workspace, home and everything installed"
    } else {
        "workspace and home, and recreates the rest"
    };
    let mut parts = vec![format!("{name} of {} replaces {what}", ago(*created_at, now))];
    let Some(summary) = current else {
        parts.push("there is no sandbox now, so no files are lost".to_owned());
        return parts;
    };
    if summary.state == SummaryState::Running {
        let jobs = count(summary.jobs_running, "running job");
        parts.push(format!("the running sandbox with {jobs} is stopped"));
    }
    parts.push("everything made or changed since is lost".to_owned());
    if let Some(mount) = &summary.overrides.mount {
        let mount = mount.display();
        parts.push(format!("{mount}, its /workspace, is yours and stays as it is"));
    }
    parts.push(format!("to keep it first: vestal snapshot {}", quoted(task.as_str())));
    parts
}

/// What becomes of workspace and home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilesOutlook {
    /// The new sandbox has them.
    Kept,
    /// They are in memory and go with the old one.
    InMemory,
    /// They are copied to another machine, or from there.
    Carried,
    /// They stay on disk, and the new one has others, in memory.
    OutOfSight,
}

fn rebuild_parts(
    current: &SandboxSummary,
    to: Option<&str>,
    confined: bool,
    files: FilesOutlook,
) -> Vec<String> {
    let moves = to.filter(|to| *to != current.backend);
    let on = match &current.description.name {
        Some(name) => format!("on {} ({name})", current.backend),
        None => format!("on {}", current.backend),
    };
    let sandbox = match current.state {
        SummaryState::Running => {
            let jobs = count(current.jobs_running, "running job");
            format!("the running sandbox {on} with {jobs}")
        }
        _ => format!("the sandbox {on}"),
    };
    let anew = moves.map_or_else(|| "is recreated".to_owned(), |to| format!("moves to {to}"));
    let mut parts = vec![format!("{sandbox} {anew} with the current settings")];
    if confined {
        parts.push("software installed outside workspace and home is lost".to_owned());
    }
    if moves.is_some() {
        parts.push("shell sessions and job logs will be removed".to_owned());
    }
    let dir = current.dir.display();
    parts.push(match (confined, files) {
        (true, FilesOutlook::Kept) => format!("kept: workspace, home and snapshots in {dir}"),
        (true, FilesOutlook::Carried) => {
            "workspace and home are copied there, and removed where they are once all of them have \
             arrived"
                .to_owned()
        }
        (true, FilesOutlook::InMemory) => {
            "workspace and home are in memory and are lost too".to_owned()
        }
        (true, FilesOutlook::OutOfSight) => format!(
            "workspace and home stay in {dir}, but the new sandbox does not have them: \
             terminal.container_persistent is false, and its own are in memory"
        ),
        (false, _) => "files of yours that its commands made stay where they are".to_owned(),
    });
    if let Some(mount) = &current.overrides.mount {
        parts.push(format!("{}, its /workspace, is yours and stays", mount.display()));
    }
    parts
}

/// Returns a whole number with its noun: `1 file`, `2 files`.
fn count(number: impl Into<u64>, noun: &str) -> String {
    let number = number.into();
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Returns how long ago something was.
fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    let (size, unit) = match seconds {
        0 => return "now".to_owned(),
        1..60 => (1, "s"),
        60..3600 => (60, "m"),
        3600..86_400 => (3600, "h"),
        _ => (86_400, "d"),
    };
    format!("{}{unit} ago", seconds / size)
}

/// Returns a word as it is typed into a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,@%+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_restore_takes_away_is_announced_before() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut snapshot = Snapshot {
            task: "a b".parse().unwrap(),
            name: "good".parse().unwrap(),
            created_at: at(0),
            backend: "native".to_owned(),
            system: true,
            files: 1,
            bytes: 1,
            note: None,
            path: "/x".into(),
        };
        let parts = restore_parts(&snapshot, None, at(7300));
        assert_eq!(
            parts,
            [
                "good of 2h ago replaces workspace, home and everything installed",
                "there is no sandbox now, so no files are lost"
            ]
        );
        snapshot.system = false;
        assert!(restore_parts(&snapshot, None, at(0))[0].contains("recreates the rest"));
    }
}
