//! Containers that hermes-agent keeps between its processes, found by its labels. What is in one is copied
//! into a sandbox of the same task; the container itself stays as it is.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;
use tokio::time::timeout;
use vestal_config::{Environment, Home, Schema, Settings};
use vestal_sandbox::{Engine, Error as SandboxError, FilesOnRemoval, Overrides, TaskName};

use crate::ledger::REMOVED;
use crate::migration::MigratedHome;
use crate::plan::{Action, ItemKind, MigrationStep, PlanItem, printable};

/// How long an engine may take to say what there is.
const LISTED_WITHIN: Duration = Duration::from_secs(15);

/// How long the end of the sandboxes may take that were made for it.
const CLOSE_WITHIN: Duration = Duration::from_secs(15);

/// Directories that hermes-agent mounts from the host: no image of a container has them.
const MOUNTED: [&str; 2] = ["/workspace", "/root"];

/// Takes the labels from the image, which would hand them on: that program would use, and remove, the
/// sandbox as one of its containers.
const NOT_ITS_OWN: &str = "LABEL hermes-agent=0 hermes-task-id=none hermes-profile=none";

/// The backend whose sandboxes can be made of an image.
const BACKEND: &str = "docker";

/// A container as the engine describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    id: String,
    state: DescribedState,
    config: DescribedConfig,
    #[serde(default)]
    mounts: Vec<DescribedMount>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribedState {
    #[serde(default)]
    running: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribedConfig {
    #[serde(default)]
    labels: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DescribedMount {
    #[serde(default)]
    destination: String,
}

/// A container that is taken over.
#[derive(Debug, Clone)]
pub(crate) struct ContainerCopy {
    /// The program that speaks with its engine.
    client: String,
    id: String,
    task: TaskName,
    /// Those of its directories that are mounted.
    mounted: Vec<&'static str>,
}

/// Says what becomes of the containers of a profile.
pub(crate) async fn plan(
    place: &MigratedHome<'_>,
    environment: &Environment,
    items: &mut Vec<PlanItem>,
) {
    let planned = |from: &str, action, reason: &str| {
        PlanItem::new(ItemKind::Container, place.name, from, action, reason)
    };
    let Some(client) = client(environment).await else {
        let reason = "neither docker nor podman answers; containers are not looked for";
        return items.push(planned("containers", Action::Leave, reason));
    };
    let mut found = match described(&client, place.name).await {
        Ok(found) => found,
        Err(reason) => return items.push(planned("containers", Action::Broken, &reason)),
    };
    // Of two with one task, that program uses the one that runs, and else the first.
    found.sort_by_key(|one| !one.state.running);
    let engine = place.home.exists().then(|| open(place.schema, &place.home, environment));
    let mut tasks: Vec<String> = Vec::new();
    for one in found {
        let short: String = one.id.chars().take(12).collect();
        let labels = one.config.labels.unwrap_or_default();
        let label = labels.get("hermes-task-id").map_or("unknown", String::as_str);
        let from = format!("{short} ({label})");
        let Ok(task) = label.parse::<TaskName>() else {
            items.push(planned(&from, Action::Broken, "its task is no name of one"));
            continue;
        };
        let item = planned(&from, Action::Take, "").to(task.as_str());
        let is_here = match &engine {
            None => Ok(false),
            Some(Err(reason)) => Err(reason.clone()),
            Some(Ok(engine)) => match engine.inspect(&task).await {
                Ok(_) => Ok(true),
                Err(SandboxError::NoSandbox { .. }) => Ok(false),
                Err(error) => Err(error.to_string()),
            },
        };
        let (action, reason) = match is_here {
            Err(reason) => (Action::Broken, format!("here: {reason}")),
            _ if tasks.iter().any(|other| other == label) => {
                (Action::Leave, "another container has its task, and is the one in use".to_owned())
            }
            Ok(true) if place.ledger.has(&item.record_key()) => (Action::Present, String::new()),
            Ok(true) => (Action::Keep, "a sandbox of that task is here".to_owned()),
            Ok(false) if place.ledger.has(&item.record_key()) => {
                (Action::Leave, REMOVED.to_owned())
            }
            Ok(false) => {
                (Action::Take, "what is in it is copied; the container stays as it is".to_owned())
            }
        };
        tasks.push(label.to_owned());
        let item = PlanItem { action, reason: printable(&reason), ..item };
        let is_mounted =
            |dir: &&'static str| one.mounts.iter().any(|mount| mount.destination == **dir);
        let mounted = MOUNTED.iter().copied().filter(is_mounted).collect();
        let copy = ContainerCopy { client: client.clone(), id: one.id, task, mounted };
        let step = MigrationStep::Container {
            home: place.home.clone(),
            environment: environment.clone(),
            copy: Box::new(copy),
        };
        items.push(if item.is_pending() { item.step(step) } else { item });
    }
}

fn open(schema: &Schema, home: &Home, environment: &Environment) -> Result<Engine, String> {
    let settings = Settings::load(schema, home.clone(), environment.clone(), Vec::new());
    Engine::open(settings).map_err(|error| error.to_string())
}

impl ContainerCopy {
    /// Makes the sandbox, as a copy of the container.
    pub(crate) async fn make(
        &self,
        schema: &Schema,
        home: &Home,
        environment: &Environment,
    ) -> Result<(), String> {
        let engine = open(schema, home, environment)?;
        match engine.inspect(&self.task).await {
            Err(SandboxError::NoSandbox { .. }) => {}
            Ok(_) => return Err("a sandbox of that task has been made meanwhile".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        let image = self.image();
        run(self.command(&["commit", "--change", NOT_ITS_OWN, &self.id, &image])).await?;
        let made = self.fill(&engine, image).await;
        if made.is_err() {
            // Half of one would be taken for the whole the next time.
            engine.remove(&self.task, FilesOnRemoval::Remove).await.ok();
        }
        engine.close(CLOSE_WITHIN).await;
        made
    }

    async fn fill(&self, engine: &Engine, image: String) -> Result<(), String> {
        let overrides = Overrides {
            image: Some(image),
            backend: Some(BACKEND.to_owned()),
            ..Overrides::default()
        };
        let sandbox = engine.sandbox_with(&self.task, &overrides).await;
        let sandbox = sandbox.map_err(|error| error.to_string())?;
        let instance = format!("label=vestal-instance={}", sandbox.instance().await);
        let made = run(self.command(&["ps", "--quiet", "--filter", &instance])).await?;
        let made = made.trim();
        if made.is_empty() || made.contains('\n') {
            return Err(format!(
                "{} does not know the new sandbox: it speaks with another engine than Vestal",
                self.client
            ));
        }
        for dir in &self.mounted {
            self.pass(dir, made).await?;
        }
        Ok(())
    }

    /// Passes what is in a directory on to the same one of another container.
    async fn pass(&self, dir: &str, made: &str) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.client);
        let mut reading = self.command(&["cp", &format!("{}:{dir}/.", self.id), "-"]);
        let mut reading = reading.stdout(Stdio::piped()).spawn().map_err(failed)?;
        let archive = reading.stdout.take().ok_or("it has no output")?;
        let archive: Stdio = archive.try_into().map_err(failed)?;
        let mut writing = self.command(&["cp", "-", &format!("{made}:{dir}")]);
        writing.stdin(archive);
        let (read, written) = tokio::join!(reading.wait_with_output(), run(writing));
        written.map_err(|reason| format!("{dir}: {reason}"))?;
        let read = read.map_err(failed)?;
        if read.status.success() {
            Ok(())
        } else {
            Err(format!("{dir}: {}", last_line(&read.stderr)))
        }
    }

    /// Returns the name of the image that is made of the container.
    fn image(&self) -> String {
        let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = self.task.as_str().chars().map(fits).take(60).collect();
        let name = name.trim_matches('-');
        let name = if name.is_empty() { "task" } else { name };
        let id: String = self.id.chars().take(12).collect();
        format!("localhost/vestal-migrated/{name}:{id}")
    }

    fn command(&self, args: &[&str]) -> Command {
        command(&self.client, args)
    }
}

fn command(client: &str, args: &[&str]) -> Command {
    let mut command = Command::new(client);
    command.args(args).stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Returns what a command prints that succeeds.
async fn run(mut command: Command) -> Result<String, String> {
    let output = command.stdout(Stdio::piped()).spawn();
    let output = match output {
        Ok(child) => child.wait_with_output().await,
        Err(error) => Err(error),
    };
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(last_line(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    printable(line.unwrap_or("it failed and said nothing"))
}

/// Returns the program that speaks with the engine, as hermes-agent finds it.
async fn client(environment: &Environment) -> Option<String> {
    let named = environment.non_empty("HERMES_DOCKER_BINARY");
    let named = named.and_then(|name| name.to_str().map(str::to_owned));
    for client in named.into_iter().chain(["docker".to_owned(), "podman".to_owned()]) {
        let asked = run(command(&client, &["version", "--format", "{{.Client.Version}}"]));
        if matches!(timeout(LISTED_WITHIN, asked).await, Ok(Ok(_))) {
            return Some(client);
        }
    }
    None
}

/// Describes the containers of a profile.
async fn described(client: &str, profile: &str) -> Result<Vec<Described>, String> {
    let asked = async {
        let profile = format!("label=hermes-profile={}", label_of(profile));
        let filters = ["--filter", "label=hermes-agent=1", "--filter", &profile];
        let listed =
            run(command(client, &[&["ps", "-aq", "--no-trunc"][..], &filters].concat())).await?;
        let ids: Vec<&str> = listed.split_whitespace().collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let json =
            run(command(client, &[&["inspect", "--type", "container"][..], &ids].concat())).await?;
        serde_json::from_str(&json).map_err(|error| format!("{client} inspect: {error}"))
    };
    let late = || Err(format!("{client} has not answered within {} s", LISTED_WITHIN.as_secs()));
    timeout(LISTED_WITHIN, asked).await.unwrap_or_else(|_| late())
}

/// Returns a name as hermes-agent writes it into a label.
fn label_of(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    let label: String = name.chars().map(fits).take(63).collect();
    if label.is_empty() { "unknown".to_owned() } else { label }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_labels_and_images() {
        assert_eq!(label_of("research"), "research");
        assert_eq!(label_of("a/b:ü"), "a_b__");
        assert_eq!(label_of(""), "unknown");
        let copy = |task: &str| ContainerCopy {
            client: "docker".to_owned(),
            id: "0123456789abcdef".to_owned(),
            task: task.parse().unwrap(),
            mounted: Vec::new(),
        };
        assert_eq!(copy("My.Task_1").image(), "localhost/vestal-migrated/my-task-1:0123456789ab");
        assert_eq!(copy("…").image(), "localhost/vestal-migrated/task:0123456789ab");
    }
}
