//! Objects as the cluster tells of them: whose a pod is, what it is doing, and what is in its way.
//! Labels prove little, because whoever may write in the namespace can write them; so an
//! object is ours only if its labels and its name agree, and it is changed by its uid.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::manifest::{CONTAINER, instance_name, label};
use crate::backend::{BackendError, FoundInstance, InstanceState, Owner};
use crate::backends::docker::one_line;

/// Longest owner that is parsed.
const MAX_OWNER: usize = 4096;

/// Longest task that is shown.
const MAX_TASK: usize = 200;

/// What a request for several objects is answered with.
#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    pub(super) items: Option<Vec<T>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ObjectMetadata {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
}

impl ObjectMetadata {
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    pub(super) fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// A volume claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct VolumeClaim {
    pub(super) metadata: ObjectMetadata,
}

impl VolumeClaim {
    /// Returns whether it is the one of this sandbox.
    pub(super) fn is_of(&self, home: &str, key: &str) -> bool {
        self.metadata.label(label::HOME) == Some(home)
            && self.metadata.label(label::KEY) == Some(key)
    }
}

/// A network policy.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Policy {
    pub(super) metadata: ObjectMetadata,
}

impl Policy {
    /// Returns whether it is one of this instance of a sandbox in this home.
    pub(super) fn is_of(&self, home: &str, instance: &str) -> bool {
        self.metadata.label(label::HOME) == Some(home)
            && self.metadata.label(label::INSTANCE) == Some(instance)
            && is_named_for(&self.metadata.name, instance)
    }
}

/// Returns whether a name is one of what a start of this instance made.
fn is_named_for(name: &str, instance: &str) -> bool {
    let rest = name.strip_prefix(&instance_name(instance));
    rest.and_then(|rest| rest.strip_prefix('-')).is_some_and(is_id)
}

/// A pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    pub(super) metadata: ObjectMetadata,
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodSpec {
    pub(super) node_name: String,
    containers: Vec<Container>,
    volumes: Vec<Volume>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Container {
    name: String,
    image: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Volume {
    name: String,
    persistent_volume_claim: Option<ClaimReference>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimReference {
    claim_name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodStatus {
    phase: String,
    reason: String,
    message: String,
    conditions: Vec<Condition>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    pub(super) container_id: String,
    #[serde(rename = "imageID")]
    pub(super) image_id: String,
    state: ContainerState,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Waiting>,
    running: Option<serde_json::Value>,
    terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Terminated {
    exit_code: i64,
    reason: String,
    message: String,
    finished_at: Option<String>,
}

/// What keeps a pod from running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Something that may pass by itself.
    Waits(String),
    /// Something that does not.
    Stuck(PodProblem),
}

/// Why a pod does not run, or no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodProblem {
    pub(super) problem: String,
    pub(super) advice: String,
    /// The image, where that is the cause.
    image: bool,
}

impl PodProblem {
    fn new(problem: String, advice: &str) -> Self {
        Self { problem, advice: advice.to_owned(), image: false }
    }

    pub(super) fn into_error(self, image: &str) -> BackendError {
        let Self { problem, advice, image: is_image } = self;
        if is_image {
            BackendError::NoImage { image: image.to_owned(), reason: problem, advice }
        } else {
            BackendError::Advised { problem, advice }
        }
    }
}

impl Pod {
    /// Returns whether it is a pod of this instance of a sandbox in this home.
    pub(super) fn is_of(&self, home: &str, instance: &str) -> bool {
        self.metadata.label(label::HOME) == Some(home)
            && self.metadata.label(label::INSTANCE) == Some(instance)
            && is_named_for(&self.metadata.name, instance)
    }

    /// Returns what decides which of an instance's pods is the instance: one that runs, else the
    /// one that ended last, else one that was never quite made.
    pub(super) fn rank(&self) -> (u8, Option<Timestamp>) {
        let rank = match self.state() {
            InstanceState::Running | InstanceState::Paused => 2,
            InstanceState::Stopped { .. } if !self.metadata.is_being_deleted() => 1,
            _ => 0,
        };
        (rank, self.created_at())
    }

    pub(super) fn container(&self) -> Option<&ContainerStatus> {
        self.status.container_statuses.iter().find(|status| status.name == CONTAINER)
    }

    /// Returns whether it was to end with the process that made it.
    pub(super) fn is_owned(&self) -> bool {
        self.metadata.label(label::PERSIST) == Some("0")
    }

    pub(super) fn image(&self) -> Option<&str> {
        let container = self.spec.containers.iter().find(|container| container.name == CONTAINER);
        container.map(|container| container.image.as_str())
    }

    /// Returns the claim with its files.
    pub(super) fn claim(&self) -> Option<&str> {
        let files = self.spec.volumes.iter().find(|volume| volume.name == "files")?;
        Some(files.persistent_volume_claim.as_ref()?.claim_name.as_str())
    }

    /// Returns whether its container runs, whatever it is doing.
    pub(super) fn runs(&self) -> bool {
        self.container().is_some_and(|container| container.state.running.is_some())
    }

    /// Returns whether it has ended for good: its node has reported that nothing of it runs.
    pub(super) fn has_ended(&self) -> bool {
        let mut statuses = self.status.container_statuses.iter();
        ["Succeeded", "Failed"].contains(&&*self.status.phase)
            && statuses.all(|status| status.state.running.is_none())
    }

    /// Returns what it is doing. A pod that is being deleted runs until its node has said that it
    /// does not; so does one on a node that is lost.
    pub(super) fn state(&self) -> InstanceState {
        if self.has_ended() {
            InstanceState::Stopped { since: self.ended_at() }
        } else if self.container().is_some_and(|container| container.state.terminated.is_some()) {
            // Its phase follows in a moment.
            InstanceState::Stopped { since: self.ended_at() }
        } else if self.runs() || self.metadata.is_being_deleted() || self.status.phase == "Unknown"
        {
            InstanceState::Running
        } else {
            InstanceState::Broken { since: self.created_at() }
        }
    }

    pub(super) fn created_at(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_deref().and_then(|text| text.parse().ok())
    }

    fn ended_at(&self) -> Option<Timestamp> {
        let terminated = self.container().and_then(|container| container.state.terminated.as_ref());
        match terminated {
            Some(terminated) => terminated.finished_at.as_deref()?.parse().ok(),
            // The cluster may forget when it was; it has been at least since it was made.
            None => self.created_at(),
        }
    }

    /// Returns why it ended, where something else than the guest ended it.
    pub(super) fn end_in_words(&self) -> Option<String> {
        let status = &self.status;
        let node = &self.spec.node_name;
        let message = one_line(&status.message);
        let terminated = self.container().and_then(|container| container.state.terminated.as_ref());
        let cause = match (&*status.reason, terminated) {
            ("Evicted", _) => format!(
                "the node {node} evicted it ({message}); lower what it uses, or reserve it: \
                 terminal.kubernetes_reserve limits"
            ),
            ("Preempting" | "Preemption", _) => {
                format!("a pod of higher priority took its place on the node {node}")
            }
            ("NodeLost" | "NodeShutdown" | "Shutdown" | "Terminated", _) => {
                format!("its node {node} was shut down or lost ({message})")
            }
            ("UnexpectedAdmissionError" | "OutOfcpu" | "OutOfmemory" | "NodeAffinity", _) => {
                format!("the node {node} did not take it ({message})")
            }
            (_, Some(end)) if end.reason == "OOMKilled" => {
                "it was killed at its limit of memory (terminal.container_memory)".to_owned()
            }
            (_, Some(end)) if ["ContainerStatusUnknown", "Unknown"].contains(&&*end.reason) => {
                format!("its node {node} was restarted")
            }
            (_, Some(end)) if end.exit_code == 255 && end.reason == "Error" => {
                format!("its node {node} was restarted, or its container runtime")
            }
            _ => return None,
        };
        Some(cause)
    }

    /// Returns the message of its guest when it failed; none if it has not.
    pub(super) fn guest_failure(&self) -> Option<String> {
        let terminated = self.container()?.state.terminated.as_ref()?;
        let lines = terminated.message.lines().map(str::trim);
        // What the guest prints when it listens is no failure.
        let said = lines.filter(|line| !line.is_empty() && !line.starts_with('{'));
        let said: Vec<&str> =
            said.map(|line| line.strip_prefix("error: ").unwrap_or(line)).collect();
        let cause = self.end_in_words().unwrap_or_default();
        let words = one_line(&[said.join("; "), cause].join(" "));
        Some(format!("its pod ended with {}: {words}", terminated.exit_code))
    }

    /// Returns what keeps it from running; none if it runs or nothing is known.
    pub(super) fn obstacle(&self) -> Option<Obstacle> {
        if self.runs() {
            return None;
        }
        if let Some(waiting) =
            self.container().and_then(|container| container.state.waiting.as_ref())
        {
            return waiting_obstacle(waiting);
        }
        if self.has_ended() || self.container().is_some_and(|c| c.state.terminated.is_some()) {
            return Some(Obstacle::Stuck(self.early_end()));
        }
        let unscheduled =
            self.status.conditions.iter().find(|condition| {
                condition.r#type == "PodScheduled" && condition.status == "False"
            });
        unscheduled.map(|condition| {
            let words = one_line(&condition.message);
            Obstacle::Waits(if words.is_empty() {
                one_line(&condition.reason)
            } else {
                format!("no node takes it: {words}")
            })
        })
    }

    /// Returns why it ended before its guest was there.
    fn early_end(&self) -> PodProblem {
        if let Some(cause) = self.end_in_words() {
            return PodProblem::new(format!("its pod ended at once: {cause}"), "try again");
        }
        let terminated = self
            .container()
            .and_then(|container| container.state.terminated.clone())
            .unwrap_or_default();
        let words = one_line(&format!("{} {}", terminated.reason, terminated.message));
        if is_missing_shell(&words) {
            return missing_shell(&words);
        }
        PodProblem::new(
            format!("its pod ended at once, with {}: {words}", terminated.exit_code),
            "see that the image has a working /bin/sh: terminal.kubernetes_image",
        )
    }

    /// Takes it over as an instance; nothing if it cannot be one of ours.
    pub(super) fn found(&self, locator: serde_json::Value) -> Option<FoundInstance> {
        let metadata = &self.metadata;
        let id = |name: &str| metadata.label(name).filter(|text| is_id(text)).map(str::to_owned);
        if metadata.label(label::AGENT) != Some("1") {
            return None;
        }
        let instance = id(label::INSTANCE)?;
        if !is_named_for(&metadata.name, &instance) {
            return None;
        }
        let persistent = match metadata.label(label::PERSIST)? {
            "1" => true,
            "0" => false,
            _ => return None,
        };
        let owner = metadata.annotations.get(label::OWNER);
        let owner = owner.filter(|text| !persistent && text.len() <= MAX_OWNER);
        // An owner that cannot be read is somebody.
        let owner: Option<Owner> = match owner {
            Some(text) => Some(serde_json::from_str(text).ok()?),
            None if persistent => None,
            None => return None,
        };
        let task = metadata.annotations.get(label::TASK).map(String::as_str);
        let task = task.filter(|text| text.len() <= MAX_TASK && !text.contains(char::is_control));
        Some(FoundInstance {
            id: instance,
            key: id(label::KEY)?,
            task: task.unwrap_or("unknown").to_owned(),
            generation: metadata.label(label::GENERATION)?.parse().ok()?,
            persistent,
            owner,
            spec: id(label::SPEC)?,
            state: self.state(),
            created_at: self.created_at(),
            locator,
        })
    }
}

/// Returns whether text can be an id or a hash: it is safe in a path and on a terminal.
fn is_id(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn waiting_obstacle(waiting: &Waiting) -> Option<Obstacle> {
    let words = one_line(&waiting.message);
    match &*waiting.reason {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "ImageInspectError"
        | "RegistryUnavailable"
        | "SignatureValidationFailed" => Some(Obstacle::Stuck(PodProblem {
            problem: format!("the node cannot pull it: {words}"),
            advice: "correct terminal.kubernetes_image (the nodes pull it, not this machine), \
                         or name a secret with terminal.kubernetes_image_pull_secret"
                .to_owned(),
            image: true,
        })),
        "CreateContainerConfigError" => Some(Obstacle::Stuck(PodProblem::new(
            format!("its pod cannot be made: {words}"),
            "correct the setting that is named; an image whose user is root needs \
             terminal.kubernetes_run_as_user where the cluster forbids root",
        ))),
        "CreateContainerError" | "RunContainerError" => {
            Some(Obstacle::Stuck(if is_missing_shell(&words) {
                missing_shell(&words)
            } else {
                PodProblem::new(
                    format!("its pod cannot be started: {words}"),
                    "see whether the image runs in this cluster: terminal.kubernetes_image",
                )
            }))
        }
        "" => None,
        other => Some(Obstacle::Waits(if words.is_empty() {
            one_line(other)
        } else {
            format!("{}: {words}", one_line(other))
        })),
    }
}

fn is_missing_shell(words: &str) -> bool {
    words.contains("/bin/sh") && (words.contains("no such file") || words.contains("not found"))
}

fn missing_shell(words: &str) -> PodProblem {
    PodProblem::new(
        format!("its image has no /bin/sh, by which the guest is put there: {words}"),
        "name an image with a shell: terminal.kubernetes_image",
    )
}

/// What is recorded of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PodLocator {
    #[serde(flatten)]
    pub(super) cluster: super::cluster::ClusterName,
    /// The context of the kubeconfig that led there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<String>,
    pub(super) pod: String,
    /// The pod's uid: a name may be another's by now.
    pub(super) uid: String,
    pub(super) node: String,
    /// Id of its container, which is another after a restart.
    pub(super) container: String,
    pub(super) image: String,
    pub(super) image_id: String,
    /// The volume claim; none where files are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claim: Option<String>,
    /// The claim's uid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claim_uid: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unenforced: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) weakened: Vec<String>,
}

impl PodLocator {
    pub(super) fn of(locator: &serde_json::Value) -> Option<Self> {
        serde_json::from_value(locator.clone()).ok()
    }

    pub(super) fn to_locator(&self) -> serde_json::Value {
        // A struct of strings always serializes.
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
