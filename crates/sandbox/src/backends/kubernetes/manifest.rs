//! Pods, claims and policies to make.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::settings::{EgressRule, PodSettings, Reservation};
use crate::Key;
use crate::backend::{BackendError, Owner, WORKSPACE};
use crate::backends::own_system::{
    BOOT_DIR, GUEST_FILE, IO_DIR, ResourceLimits, SETTINGS_FILE, STATE_DIR,
};

/// Name of the container in each pod.
pub(super) const CONTAINER: &str = "sandbox";

/// How long the guest has to end in order when the cluster ends its pod.
pub(super) const END_GRACE_SECONDS: u64 = 10;

/// For how long a pod waits for its guest's program before it gives up.
const BOOT_TENTHS: u32 = 1200;

/// What a sandbox reserves at least: thousandths of a processor, megabytes of memory.
const LITTLE_CPU: u64 = 10;
const LITTLE_MEMORY: u64 = 64;

/// Names of labels, and of annotations for what is no label's value.
pub(super) mod label {
    /// `1` on all that Vestal makes.
    pub(in super::super) const AGENT: &str = "vestal-agent";
    /// An annotation: the task.
    pub(in super::super) const TASK: &str = "vestal-task";
    /// Hash of the key. This label decides which sandbox it belongs to.
    pub(in super::super) const KEY: &str = "vestal-key";
    /// The profile home.
    pub(in super::super) const HOME: &str = "vestal-home";
    /// The instance.
    pub(in super::super) const INSTANCE: &str = "vestal-instance";
    /// Hash of the settings it was made with.
    pub(in super::super) const SPEC: &str = "vestal-spec";
    /// `1` if it outlives processes, else `0`.
    pub(in super::super) const PERSIST: &str = "vestal-persist";
    /// Generation of the instance.
    pub(in super::super) const GENERATION: &str = "vestal-generation";
    /// An annotation: the process it ends with.
    pub(in super::super) const OWNER: &str = "vestal-owner";
    /// Of a claim: which of the guests' states on it counts.
    pub(in super::super) const STATE: &str = "vestal-state";
    /// Of a claim: the instance for which it was made, while no guest has used it.
    pub(in super::super) const UNUSED: &str = "vestal-unused";
    /// Which start of an instance it is, of a pod and its policy.
    pub(in super::super) const START: &str = "vestal-start";
    /// Of a claim: which tree of files on it counts. Without it the one at its top does.
    pub(in super::super) const FILES: &str = "vestal-files";
    /// Of a claim: the tree that counts again should the instance not be made after all.
    pub(in super::super) const FILES_BEFORE: &str = "vestal-files-before";
    /// Of a claim: that instance.
    pub(in super::super) const FILES_BY: &str = "vestal-files-by";
    /// Of a pod that copies or removes files: for which copy or instance.
    pub(in super::super) const HELPER: &str = "vestal-helper";
    /// What the label of a claim begins with that says that a copy is on it, or was begun.
    pub(in super::super) const COPY: &str = "vestal-copy-";
}

/// Returns what the names of an instance's pods and policies begin with.
pub(super) fn instance_name(instance: &str) -> String {
    format!("vestal-{instance}")
}

/// Returns the name of a pod of an instance, and of its policy. Each start has one of its own: the pod that ended
/// stays until another runs, so that a start that fails changes nothing.
pub(super) fn pod_name(instance: &str, start: &str) -> String {
    format!("{}-{start}", instance_name(instance))
}

/// Returns the selector of the pods of an instance.
pub(super) fn instance_selector(home: &str, instance: &str) -> String {
    format!("{},{}={instance}", selector(home, None), label::INSTANCE)
}

/// Returns the name of a sandbox's claim.
pub(super) fn claim_name(key: &Key) -> String {
    let task = key.task().as_str().to_ascii_lowercase();
    let task: String =
        task.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(24).collect();
    let hash = key.hash();
    match task.trim_matches('-') {
        "" => format!("vestal-{hash}"),
        task => format!("vestal-{task}-{hash}"),
    }
}

/// Returns the selector of claims that were made for an instance and that no guest has used.
pub(super) fn unused_selector(home: &str, instance: &str) -> String {
    format!("{},{}={instance}", selector(home, None), label::UNUSED)
}

/// Returns the selector of what belongs to a home, or to one of its sandboxes.
pub(super) fn selector(home: &str, key: Option<&str>) -> String {
    let mut selector = format!("{}=1,{}={home}", label::AGENT, label::HOME);
    if let Some(key) = key {
        let _written = write!(selector, ",{}={key}", label::KEY);
    }
    selector
}

/// Returns the selector of the pods that do something for a copy or an instance.
pub(super) fn helper_selector(home: &str, id: &str) -> String {
    format!("{},{}={id}", selector(home, None), label::HELPER)
}

/// Returns the selector of the claims that a copy is on.
pub(super) fn copy_selector(home: &str, copy: &str) -> String {
    format!("{},{}{copy}", selector(home, None), label::COPY)
}

/// Returns the value of a label: its ends must be letters or digits.
fn label_of(text: &str) -> String {
    text.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

fn common_labels(key: &Key) -> Value {
    let mut labels = json!({
        label::KEY: key.hash(), label::HOME: key.home().as_str(),
        "app.kubernetes.io/managed-by": "vestal",
    });
    for (name, value) in key.labels() {
        labels[name] = label_of(&value).into();
    }
    labels
}

/// Returns the claim of a sandbox, as it is made for this instance.
pub(super) fn claim(key: &Key, settings: &PodSettings, state: &str, instance: &str) -> Value {
    let mut labels = common_labels(key);
    labels[label::STATE] = state.into();
    labels[label::UNUSED] = instance.into();
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim_name(key), "labels": labels,
            "annotations": { label::TASK: key.task().as_str() },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": format!("{}Mi", settings.storage_mb) } },
        },
    });
    if let Some(class) = &settings.storage_class {
        claim["spec"]["storageClassName"] = class.as_str().into();
    }
    claim
}

/// A pod to make.
#[derive(Debug)]
pub(super) struct PodPlan<'a> {
    pub(super) key: &'a Key,
    pub(super) instance: &'a str,
    /// Distinguishes this start of it.
    pub(super) start: &'a str,
    pub(super) generation: u64,
    pub(super) spec: &'a str,
    pub(super) owner: Option<&'a Owner>,
    pub(super) settings: &'a PodSettings,
    pub(super) limits: ResourceLimits,
    /// The claim; none where files are not kept.
    pub(super) claim: Option<&'a str>,
    /// Which of the guests' states on the claim counts; none where that is not kept.
    pub(super) state: Option<&'a str>,
    /// Which tree of files on the claim counts.
    pub(super) tree: &'a FileTree,
}

/// A tree of files on a claim: workspace and home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileTree {
    /// The one at its top, which a new claim has.
    Top,
    /// One that was copied there, by its name.
    Copied(String),
}

impl FileTree {
    /// What the label of [`FileTree::Top`] says where one has to be written.
    const TOP: &str = "top";

    /// Returns the tree that a label names.
    pub(super) fn of(label: Option<&str>) -> Self {
        match label {
            None | Some(Self::TOP) => Self::Top,
            Some(name) => Self::Copied(name.to_owned()),
        }
    }

    /// Returns the label that names it.
    pub(super) fn label(&self) -> &str {
        match self {
            Self::Top => Self::TOP,
            Self::Copied(name) => name,
        }
    }

    /// Returns where a part of it is on the claim.
    pub(super) fn part(&self, part: &str) -> String {
        match self {
            Self::Top => part.to_owned(),
            Self::Copied(name) => format!("{TREES_DIR}/{name}/{part}"),
        }
    }
}

/// Where trees are on a claim that were copied there, and copies that are none of a sandbox.
pub(super) const TREES_DIR: &str = "trees";
pub(super) const COPIES_DIR: &str = "copies";

/// The parts of a tree.
pub(super) const PARTS: [&str; 2] = ["workspace", "home"];

impl PodPlan<'_> {
    /// Returns where `~` is.
    pub(super) fn home(&self) -> &'static str {
        if self.settings.user.is_some() { "/home/vestal" } else { "/root" }
    }

    /// Returns where the guest keeps its journal, jobs and sessions.
    pub(super) fn state_dir(&self) -> String {
        match self.state {
            Some(state) => format!("{STATE_DIR}/{state}"),
            None => STATE_DIR.to_owned(),
        }
    }

    /// Returns the policy of a pod that may connect to these places and to the names of the
    /// cluster, or, without any, to nothing. It is that pod's alone: who removes the one of an
    /// earlier start takes nothing from this one.
    pub(super) fn network_policy(&self, egress: &[EgressRule]) -> Value {
        let chosen = json!({ label::INSTANCE: self.instance, label::START: self.start });
        let mut labels = common_labels(self.key);
        labels[label::INSTANCE] = self.instance.into();
        labels[label::START] = self.start.into();
        let mut policy = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": { "name": pod_name(self.instance, self.start), "labels": labels },
            "spec": {
                "podSelector": { "matchLabels": chosen },
                "policyTypes": ["Ingress", "Egress"],
            },
        });
        if !egress.is_empty() {
            // Without names few places can be found.
            let names = ["UDP", "TCP"].map(|protocol| json!({ "protocol": protocol, "port": 53 }));
            let rules = egress.iter().map(|rule| {
                let mut allowed = json!({ "to": [{ "ipBlock": { "cidr": rule.cidr() } }] });
                if let Some(port) = rule.port {
                    allowed["ports"] = json!([{ "protocol": "TCP", "port": port }]);
                }
                allowed
            });
            let all: Vec<Value> = std::iter::once(json!({ "ports": names })).chain(rules).collect();
            policy["spec"]["egress"] = all.into();
        }
        policy
    }

    /// Returns the pod.
    pub(super) fn pod(&self) -> Result<Value, BackendError> {
        let settings = self.settings;
        let mut labels = common_labels(self.key);
        labels[label::INSTANCE] = self.instance.into();
        labels[label::START] = self.start.into();
        labels[label::SPEC] = self.spec.into();
        labels[label::GENERATION] = self.generation.to_string().into();
        labels[label::PERSIST] = if self.owner.is_some() { "0" } else { "1" }.into();
        let mut annotations = json!({ label::TASK: self.key.task().as_str() });
        if let Some(owner) = self.owner {
            let text = serde_json::to_string(owner).map_err(|error| BackendError::Io {
                action: "encode the owner of a pod".to_owned(),
                source: error.into(),
            })?;
            annotations[label::OWNER] = text.into();
        }
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": pod_name(self.instance, self.start), "labels": labels, "annotations": annotations,
            },
            "spec": {
                // What ended stays ended until somebody asks for it.
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "terminationGracePeriodSeconds": END_GRACE_SECONDS,
                "securityContext": pod_security(settings),
                "containers": [{
                    "name": CONTAINER,
                    "image": settings.image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["/bin/sh", "-c", starter(), "vestal", self.state.unwrap_or("")],
                    "resources": self.resources(),
                    "securityContext": container_security(settings),
                    "volumeMounts": self.mounts(),
                    // A guest that fails says why on its standard error.
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                }],
                "volumes": self.volumes(),
            },
        });
        place(&mut pod["spec"], settings);
        Ok(pod)
    }

    fn resources(&self) -> Value {
        let (mut limits, mut requests) = (json!({}), json!({}));
        let little = self.settings.reserve == Reservation::Little;
        let ResourceLimits { cpu, memory_mb, disk_mb, .. } = self.limits;
        if cpu.value > 0 {
            limits["cpu"] = format!("{}m", cpu.value).into();
        }
        if memory_mb.value > 0 {
            limits["memory"] = format!("{}Mi", memory_mb.value).into();
        }
        if disk_mb.value > 0 {
            limits["ephemeral-storage"] = format!("{}Mi", disk_mb.value).into();
            requests["ephemeral-storage"] = "0".into();
        }
        // A request without a limit above it would be refused, and a limit without a request is
        // its own request.
        if little || cpu.value == 0 {
            let least = if cpu.value == 0 { LITTLE_CPU } else { LITTLE_CPU.min(cpu.value) };
            requests["cpu"] = format!("{least}m").into();
        }
        if little || memory_mb.value == 0 {
            let least = if memory_mb.value == 0 {
                LITTLE_MEMORY
            } else {
                LITTLE_MEMORY.min(memory_mb.value)
            };
            requests["memory"] = format!("{least}Mi").into();
        }
        json!({ "limits": limits, "requests": requests })
    }

    fn mounts(&self) -> Vec<Value> {
        let mut mounts = vec![
            json!({ "name": "boot", "mountPath": BOOT_DIR }),
            json!({ "name": "io", "mountPath": IO_DIR }),
        ];
        let files = if self.claim.is_some() { "files" } else { "memory" };
        for (path, part) in [(WORKSPACE, PARTS[0]), (self.home(), PARTS[1])] {
            let part = self.tree.part(part);
            mounts.push(json!({ "name": files, "mountPath": path, "subPath": part }));
        }
        let state = if self.state.is_some() { files } else { "state" };
        let mut mount = json!({ "name": state, "mountPath": STATE_DIR });
        if self.state.is_some() {
            mount["subPath"] = "state".into();
        }
        mounts.push(mount);
        for (number, claim) in self.settings.claims.iter().enumerate() {
            mounts.push(json!({
                "name": format!("claim-{number}"), "mountPath": claim.path, "readOnly": claim.read_only,
            }));
        }
        mounts
    }

    fn volumes(&self) -> Vec<Value> {
        let mut volumes = vec![
            json!({ "name": "boot", "emptyDir": { "sizeLimit": "32Mi" } }),
            json!({ "name": "io", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } }),
        ];
        match self.claim {
            Some(claim) => volumes.push(json!({
                "name": "files", "persistentVolumeClaim": { "claimName": claim },
            })),
            None => volumes.push(json!({ "name": "memory", "emptyDir": { "medium": "Memory" } })),
        }
        if self.state.is_none() {
            volumes.push(json!({ "name": "state", "emptyDir": {} }));
        }
        for (number, claim) in self.settings.claims.iter().enumerate() {
            volumes.push(json!({
                "name": format!("claim-{number}"),
                "persistentVolumeClaim": { "claimName": claim.name, "readOnly": claim.read_only },
            }));
        }
        volumes
    }
}

/// A pod that copies or removes files on claims while no sandbox uses them.
#[derive(Debug)]
pub(super) struct HelperPlan<'a> {
    pub(super) name: &'a str,
    pub(super) home: &'a str,
    /// The copy or instance that it is for.
    pub(super) of: &'a str,
    pub(super) settings: &'a PodSettings,
    /// The claim that is written, at [`HELPER_TO`].
    pub(super) to: &'a str,
    /// The claim that is read, at [`HELPER_FROM`]. It may be the same.
    pub(super) from: &'a str,
    /// The node where another pod has the claim already.
    pub(super) node: Option<&'a str>,
}

/// Where the claims are in a pod that copies.
pub(super) const HELPER_TO: &str = "/.vestal/to";
pub(super) const HELPER_FROM: &str = "/.vestal/from";

impl HelperPlan<'_> {
    /// Returns the pod.
    pub(super) fn pod(&self) -> Value {
        let Self { name, home, of, settings, to, from, node } = self;
        let mut volumes = vec![
            json!({ "name": "boot", "emptyDir": { "sizeLimit": "32Mi" } }),
            json!({ "name": "to", "persistentVolumeClaim": { "claimName": to } }),
        ];
        // One claim is one volume, and never two.
        let source = if from == to { "to" } else { "from" };
        if from != to {
            let claim = json!({ "claimName": from });
            volumes.push(json!({ "name": "from", "persistentVolumeClaim": claim }));
        }
        let mounts = json!([
            { "name": "boot", "mountPath": BOOT_DIR },
            { "name": "to", "mountPath": HELPER_TO },
            { "name": source, "mountPath": HELPER_FROM, "readOnly": true },
        ]);
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "labels": {
                label::AGENT: "1", label::HOME: home, label::HELPER: of,
                "app.kubernetes.io/managed-by": "vestal",
            } },
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "terminationGracePeriodSeconds": 1,
                "securityContext": pod_security(settings),
                "containers": [{
                    "name": CONTAINER,
                    "image": settings.image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["/bin/sh", "-c", WAITER],
                    "resources": {
                        "limits": { "cpu": "1", "memory": "512Mi" },
                        "requests": { "cpu": "10m", "memory": "64Mi" },
                    },
                    "securityContext": container_security(settings),
                    "volumeMounts": mounts,
                }],
                "volumes": volumes,
            },
        });
        place(&mut pod["spec"], settings);
        if let Some(node) = node {
            pod["spec"]["nodeName"] = (*node).into();
        }
        pod
    }
}

/// What such a pod does by itself: it waits for its end, for a day at most.
const WAITER: &str = "trap 'exit 0' TERM INT; i=0; while [ \"$i\" -lt 86400 ]; do \
                      i=$((i+1)); sleep 1; done";

/// Adds what the settings say of where and as who a pod runs.
fn place(spec: &mut Value, settings: &PodSettings) {
    if let Some(account) = &settings.service_account {
        spec["serviceAccountName"] = account.as_str().into();
    }
    if let Some(class) = &settings.runtime_class {
        spec["runtimeClassName"] = class.as_str().into();
    }
    if let Some(secret) = &settings.image_pull_secret {
        spec["imagePullSecrets"] = json!([{ "name": secret }]);
    }
    for (name, value) in &settings.node_labels {
        spec["nodeSelector"][name] = value.as_str().into();
    }
}

fn pod_security(settings: &PodSettings) -> Value {
    let mut security = json!({ "seccompProfile": { "type": "RuntimeDefault" } });
    if let Some(user) = settings.user {
        security["runAsNonRoot"] = true.into();
        security["runAsUser"] = user.into();
        security["runAsGroup"] = user.into();
        // Volumes are made for root where nobody says otherwise.
        security["fsGroup"] = user.into();
    }
    security
}

fn container_security(settings: &PodSettings) -> Value {
    let mut capabilities = json!({ "drop": ["ALL"] });
    if settings.user.is_none() {
        // Those by which root in a container installs packages, and no others.
        capabilities["add"] = json!(["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]);
    }
    json!({
        "allowPrivilegeEscalation": false, "privileged": false, "capabilities": capabilities,
    })
}

/// Returns what the container executes: it waits until the guest's program was put there, removes
/// what guests kept that no longer counts, and becomes the guest.
fn starter() -> String {
    format!(
        "trap 'exit 143' TERM INT\n\
         i=0\n\
         until [ -e {BOOT_DIR}/go ]; do\n\
         i=$((i+1)); if [ \"$i\" -gt {BOOT_TENTHS} ]; then echo 'no guest was put here' >&2; exit 66; fi\n\
         sleep 0.1 2>/dev/null || sleep 1\n\
         done\n\
         if [ -n \"$1\" ]; then for d in {STATE_DIR}/*; do\n\
         if [ \"$d\" != \"{STATE_DIR}/$1\" ]; then rm -rf \"$d\"; fi; done; fi\n\
         trap - TERM INT\n\
         exec {GUEST_FILE} serve --settings {SETTINGS_FILE}\n"
    )
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
