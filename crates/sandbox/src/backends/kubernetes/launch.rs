//! A pod from its making to its guest listening.

use std::time::Duration;

use minicbor::bytes::ByteVec;
use tokio::time::Instant;
use vestal_config::ConfigError;
use vestal_wire::GuestSettings;

use super::backend::{Kubernetes, OpenCluster};
use super::claims::{ensure_claim, mark_claim, settle_claim};
use super::cluster::{Cluster, Kind};
use super::manifest::{END_GRACE_SECONDS, FileTree, PodPlan, instance_selector, pod_name};
use super::objects::{Obstacle, Pod, PodLocator, Policy};
use super::settings::PodSettings;
use super::upload::{PodUpload, put_program};
use crate::backend::{BackendError, InstanceRequest, StartedInstance};
use crate::backends::docker::one_line;
use crate::backends::own_system::{IO_DIR, LimitKind, ResourceLimits, WORKSPACE, start_dir};
use crate::key::random_hex;
use crate::settings::keys;
use crate::{Progress, ProgressSink, failpoint};

/// How long the removal of a pod may take.
pub(super) const REMOVAL_TIMEOUT: Duration = Duration::from_secs(END_GRACE_SECONDS + 50);

/// Whether an instance is made or made to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodLaunch {
    New,
    Again,
}

impl Kubernetes {
    /// Makes a pod of an instance and waits until its guest listens.
    pub(super) async fn launch(
        &self,
        open: &OpenCluster,
        request: InstanceRequest,
        launch: PodLaunch,
    ) -> Result<StartedInstance, BackendError> {
        let cluster = &open.cluster;
        let settings = PodSettings::read(self.settings(), &request.overrides)?;
        let limits = ResourceLimits::read(self.settings())?;
        refuse_unenforceable(&limits)?;
        let persistent = self.settings().get(&keys::CONTAINER_PERSISTENT)?.value;
        let network = self.settings().get(&keys::DOCKER_NETWORK)?.value;
        let start_dir = start_dir(self.settings(), &request.overrides)?;

        let say =
            |what: &str| request.progress.report(Progress::Starting { what: what.to_owned() });
        let files = if persistent {
            say("asking for a volume");
            Some(ensure_claim(cluster, &request, &settings).await?)
        } else {
            None
        };
        let (claim, state) = match &files {
            Some(files) => (Some(&*files.name), Some(&*files.state)),
            None => (None, None),
        };
        let fresh = files.as_ref().filter(|files| files.unused);
        let tree = match (&request.base, &files) {
            (Some(base), Some(files)) => {
                self.fill(open, &request, &settings, &files.name, base).await?
            }
            (None, Some(files)) => {
                if files.unsettled {
                    // What was copied there for an instance counts for good: it is on record.
                    settle_claim(cluster, files).await?;
                }
                files.tree.clone()
            }
            (_, None) => FileTree::Top,
        };
        failpoint::reach(match launch {
            PodLaunch::New => "kubernetes.create.claimed",
            PodLaunch::Again => "kubernetes.start.claimed",
        });
        let spec = request.spec.hash();
        let start = random_hex::<3>().map_err(BackendError::io("get random bytes"))?;
        let plan = PodPlan {
            key: &request.key,
            instance: &request.instance.id,
            start: &start,
            generation: request.generation,
            spec: &spec,
            owner: request.owner.as_ref(),
            settings: &settings,
            limits,
            claim,
            // What the guest of an instance keeps that ends with its owner does so, too.
            state: state.filter(|_| request.owner.is_none()),
            tree: &tree,
        };
        let before = end_other_pods(cluster, &request).await?;
        let name = pod_name(plan.instance, &start);
        let taken = || BackendError::Advised {
            problem: format!("there is an object named {name} already"),
            advice: "try again".to_owned(),
        };
        let policy = match (network, &*settings.egress) {
            (false, _) => Some(plan.network_policy(&[])),
            (true, []) => None,
            (true, egress) => Some(plan.network_policy(egress)),
        };
        let caveat = match (network, &*settings.egress) {
            (false, _) => Some(NETWORK_CAVEAT),
            (true, []) => None,
            (true, _) => Some(EGRESS_CAVEAT),
        };
        if let Some(policy) = policy {
            // It is there before the pod that it is for.
            cluster.create::<serde_json::Value>(Kind::Policy, &policy).await?.ok_or_else(taken)?;
        }
        failpoint::reach(match launch {
            PodLaunch::New => "kubernetes.create.cleared",
            PodLaunch::Again => "kubernetes.start.cleared",
        });
        say("making a pod");
        let made = cluster.create::<Pod>(Kind::Pod, &plan.pod()?).await?.ok_or_else(taken)?;
        failpoint::reach(match launch {
            PodLaunch::New => "kubernetes.create.made",
            PodLaunch::Again => "kubernetes.start.made",
        });
        let up = async {
            let running = wait_until_runs(cluster, &settings, &made, &request.progress).await?;
            failpoint::reach(match launch {
                PodLaunch::New => "kubernetes.create.runs",
                PodLaunch::Again => "kubernetes.start.runs",
            });
            if let Some(files) = fresh {
                // From now on it may hold something.
                mark_claim(cluster, files, None).await?;
            }
            let guest = encode_settings(&plan, &request.guest, start_dir.as_deref())?;
            let guest = PodUpload::Guest { settings: &guest, has_claim: plan.claim.is_some() };
            put_program(self, cluster, &running, &guest, &request.progress).await?;
            Ok::<_, BackendError>(running)
        };
        let running = match up.await {
            Ok(running) => running,
            Err(error) => {
                // It is of no use, and what is tried next finds its name free.
                let grace = Some(Duration::from_secs(1));
                let name = &made.metadata.name;
                if let Err(left) = cluster.delete(Kind::Pod, name, &made.metadata.uid, grace).await
                {
                    tracing::warn!(pod = name, %left, "left for later");
                }
                if let Some(files) = fresh
                    && let Err(left) = mark_claim(cluster, files, Some(plan.instance)).await
                {
                    tracing::warn!(claim = files.name, %left, "an empty claim is left");
                }
                return Err(error);
            }
        };
        for ended in &before {
            let Pod { metadata, .. } = ended;
            if let Err(left) = cluster.delete(Kind::Pod, &metadata.name, &metadata.uid, None).await
            {
                tracing::warn!(pod = metadata.name, %left, "left for later");
            }
        }
        let (home, instance) = (request.key.home().as_str(), plan.instance);
        let others = |policy: &str| policy != made.metadata.name;
        if let Err(left) = remove_policies(cluster, home, instance, others).await {
            tracing::warn!(instance, %left, "policies of earlier pods are left");
        }
        let container = running.container().cloned().unwrap_or_default();
        let locator = PodLocator {
            cluster: cluster.name.clone(),
            context: open.choice.context.clone(),
            pod: made.metadata.name.clone(),
            uid: made.metadata.uid.clone(),
            node: one_line(&running.spec.node_name),
            container: one_line(&container.container_id),
            image: settings.image.clone(),
            image_id: one_line(&container.image_id),
            claim: claim.map(str::to_owned),
            claim_uid: files.as_ref().map(|files| files.uid.clone()),
            unenforced: unenforced(&limits),
            weakened: caveat.map(str::to_owned).into_iter().collect(),
        };
        let mut warnings = Vec::new();
        if let Some(cause) = before.iter().find_map(Pod::end_in_words) {
            warnings.push(format!("its last pod did not end by itself: {cause}"));
        }
        if launch == PodLaunch::New && request.generation == 1 {
            warnings.push(if persistent {
                format!(
                    "what is kept is {WORKSPACE} and {}: what is installed elsewhere goes when the \
                     pod ends, as by `vestal stop`, an eviction or a restart of its node",
                    plan.home()
                )
            } else {
                "nothing is kept when the pod ends, as by an eviction or a restart of its node \
                 (terminal.container_persistent)"
                    .to_owned()
            });
        }
        if launch == PodLaunch::New {
            warnings.extend(limits.warning(&locator.unenforced));
            warnings.extend(caveat.map(str::to_owned));
        }
        Ok(StartedInstance { locator: locator.to_locator(), warnings })
    }
}

/// What nobody can tell from outside.
const NETWORK_CAVEAT: &str = "the network is off by a NetworkPolicy, which holds only where the \
                              cluster's network enforces policies: see docs/kubernetes.md";

/// Likewise.
const EGRESS_CAVEAT: &str = "where it may connect to is limited by a NetworkPolicy, which holds only \
                             where the cluster's network enforces policies: see docs/kubernetes.md";

/// Returns the limits that Kubernetes has no field for.
fn unenforced(limits: &ResourceLimits) -> Vec<String> {
    let pids = limits.pids.value != 0;
    pids.then(|| LimitKind::Pids.key().to_owned()).into_iter().collect()
}

fn refuse_unenforceable(limits: &ResourceLimits) -> Result<(), BackendError> {
    if !limits.requires(LimitKind::Pids) {
        return Ok(());
    }
    Err(BackendError::Unenforceable {
        key: LimitKind::Pids.key(),
        reason: "Kubernetes limits processes per node, not per pod".to_owned(),
        advice: "leave it at its default, or unset terminal.require_limits".to_owned(),
    })
}

/// Deletes the policies of an instance whose names are chosen. Each is for one pod, so this is
/// done when that is gone.
pub(super) async fn remove_policies(
    cluster: &Cluster,
    home: &str,
    instance: &str,
    chosen: impl Fn(&str) -> bool,
) -> Result<(), BackendError> {
    for policy in cluster.policies(&instance_selector(home, instance)).await? {
        if policy.is_of(home, instance) && chosen(&policy.metadata.name) {
            let Policy { metadata } = policy;
            cluster.delete(Kind::Policy, &metadata.name, &metadata.uid, None).await?;
        }
    }
    Ok(())
}

/// Ends what runs of an instance, and returns its pods that have ended.
async fn end_other_pods(
    cluster: &Cluster,
    request: &InstanceRequest,
) -> Result<Vec<Pod>, BackendError> {
    let (home, instance) = (request.key.home().as_str(), &request.instance.id);
    let mut ended = Vec::new();
    for pod in cluster.pods(&instance_selector(home, instance)).await? {
        if !pod.is_of(home, instance) {
            continue;
        }
        if pod.has_ended() {
            ended.push(pod);
        } else {
            delete_and_wait(cluster, &pod, REMOVAL_TIMEOUT).await?;
        }
    }
    Ok(ended)
}

/// Deletes a pod and waits until its node has reported that it is gone.
pub(super) async fn delete_and_wait(
    cluster: &Cluster,
    pod: &Pod,
    within: Duration,
) -> Result<(), BackendError> {
    let (name, uid) = (&pod.metadata.name, &pod.metadata.uid);
    let deadline = Instant::now() + within;
    let grace = Some(Duration::from_secs(if pod.has_ended() { 1 } else { 2 }));
    cluster.delete(Kind::Pod, name, uid, grace).await?;
    let gone = |seen: Option<&Pod>| match seen {
        Some(seen) if seen.metadata.uid == *uid => None,
        _ => Some(()),
    };
    if cluster.wait_for(name, deadline, gone).await?.is_some() {
        return Ok(());
    }
    // A node that is busy says that it has ended long before it lets go of it.
    match cluster.get::<Pod>(Kind::Pod, name).await? {
        None => Ok(()),
        Some(seen) if seen.metadata.uid != *uid || seen.has_ended() => Ok(()),
        Some(_) => Err(BackendError::WontEnd {
            id: name.clone(),
            reason: format!(
                "its node {} has not said within {} s that the pod has ended. If the node is lost, the \
                 pod may still run there and use its volume, so nothing is started in its place: \
                 bring the node back, or remove it from the cluster (kubectl delete node) once you \
                 are sure that it is off",
                one_line(&pod.spec.node_name),
                within.as_secs()
            ),
        }),
    }
}

/// Waits until the pod's container runs.
pub(super) async fn wait_until_runs(
    cluster: &Cluster,
    settings: &PodSettings,
    made: &Pod,
    progress: &ProgressSink,
) -> Result<Pod, BackendError> {
    let deadline = Instant::now() + settings.start_timeout;
    let mut said = String::new();
    let mut wanted = |seen: Option<&Pod>| {
        let gone = || Err(BackendError::GuestFailed { reason: "its pod was deleted".to_owned() });
        let Some(seen) = seen.filter(|seen| seen.metadata.uid == made.metadata.uid) else {
            return Some(gone());
        };
        if seen.runs() {
            return Some(Ok(seen.clone()));
        }
        if seen.metadata.is_being_deleted() {
            return Some(gone());
        }
        match seen.obstacle() {
            Some(Obstacle::Stuck(problem)) => Some(Err(problem.into_error(&settings.image))),
            Some(Obstacle::Waits(words)) => {
                if words != said {
                    progress.report(Progress::Starting {
                        what: format!("waiting for the pod ({words})"),
                    });
                    said = words;
                }
                None
            }
            None => None,
        }
    };
    let name = &made.metadata.name;
    if let Some(outcome) = cluster.wait_for(name, deadline, &mut wanted).await? {
        return outcome;
    }
    let mut reasons = cluster.events(&made.metadata.uid).await;
    reasons.truncate(1);
    if !said.is_empty() {
        reasons.insert(0, said);
    }
    let reason =
        if reasons.is_empty() { "no reason was given".to_owned() } else { reasons.join("; ") };
    Err(BackendError::Advised {
        problem: format!(
            "its pod did not run within {} s: {}",
            settings.start_timeout.as_secs(),
            one_line(&reason)
        ),
        advice: "make room for it, lower terminal.container_cpu, container_memory or what it \
                 reserves (terminal.kubernetes_reserve), check terminal.kubernetes_storage_class \
                 and kubernetes_node_selector, or give it more time with \
                 terminal.kubernetes_start_timeout"
            .to_owned(),
    })
}

/// Returns the complete settings of the guest, encoded.
fn encode_settings(
    plan: &PodPlan<'_>,
    guest: &GuestSettings,
    start_dir: Option<&std::path::Path>,
) -> Result<Vec<u8>, BackendError> {
    let bytes = |text: &str| ByteVec::from(text.as_bytes().to_vec());
    let start = start_dir.map_or_else(|| WORKSPACE.into(), |dir| dir.to_string_lossy());
    let settings = GuestSettings {
        state_dir: bytes(&plan.state_dir()),
        socket_dir: bytes(IO_DIR),
        env: Vec::new(),
        home: bytes(plan.home()),
        start_dir: bytes(&start),
        // Earlier processes ended with the pod.
        previous_instances: Vec::new(),
        ephemeral: false,
        user: None,
        socket_mode: None,
        inherit_env: true,
        hand_over: Vec::new(),
        ..guest.clone()
    };
    vestal_wire::encode(&settings)
        .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })
}

/// What the settings say that shapes a pod, apart from [`PodSettings`].
pub(super) fn read_network(settings: &vestal_config::Settings) -> Result<bool, ConfigError> {
    Ok(settings.get(&keys::DOCKER_NETWORK)?.value)
}
