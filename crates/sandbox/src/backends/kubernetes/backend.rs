//! The backend's traits, implemented with requests to a cluster.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use vestal_config::{ConfigError, Settings};

use super::cluster::{Cluster, Kind};
use super::doctor::look;
use super::exec::{ExecFailure, PodExecStream};
use super::launch::{PodLaunch, REMOVAL_TIMEOUT, delete_and_wait, remove_policies};
use super::manifest::{instance_selector, label, selector, unused_selector};
use super::objects::{Pod, PodLocator, VolumeClaim};
use super::settings::{self, ClusterChoice};
use super::spec::{spec_of, tightening};
use crate::backend::{
    Availability, Backend, BackendError, ByteStream, Copies, Declaration, Description,
    FoundInstance, HostDirectories, Instance, InstanceFilter, InstanceRequest, InstanceState,
    KeptVolumes, Locator, Marked, Remedy, StartedInstance, VolumeStore,
};
use crate::backends::docker::one_line;
use crate::backends::own_system::{GUEST_FILE, IO_DIR};
use crate::embedded::guests_dir;
use crate::key::random_hex;
use crate::store::remove_tree;
use crate::{HomeId, Key, Overrides, Spec};

/// The declaration of the backend.
pub(crate) static DECLARATION: Declaration = Declaration {
    name: "kubernetes",
    mistaken_names: &[("k8s", "set terminal.backend: kubernetes")],
    host_directories: HostDirectories::Synced,
    takes_images: true,
    image_setting: Some("terminal.kubernetes_image"),
    // A start is a new pod, made as the settings of now say.
    remedy: Remedy::Restart,
    hung_advice: "see whether the API server is up and reached (kubectl version), and try again",
    tightening,
    ..Declaration::REMOTE
};

/// How long a guest that was asked to end may take until its node has reported it.
const REPORT_TIMEOUT: Duration = Duration::from_secs(8);

/// How long the request to end may take to reach a pod.
const TELL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a claim without a pod may take to be gone.
const CLAIM_TIMEOUT: Duration = Duration::from_mins(2);

/// A cluster with what led to it.
#[derive(Debug, Clone)]
pub(super) struct OpenCluster {
    pub(super) cluster: Cluster,
    pub(super) choice: ClusterChoice,
}

/// The backend `kubernetes`.
#[derive(Debug)]
pub(crate) struct Kubernetes {
    settings: Arc<Settings>,
    home: HomeId,
    guests_dir: PathBuf,
    clusters: tokio::sync::Mutex<HashMap<ClusterChoice, Cluster>>,
    /// Instances that no cluster was ever asked to make.
    unmade: Mutex<HashSet<String>>,
}

impl Kubernetes {
    /// Returns the backend for the settings' home. Nobody is asked yet.
    pub(crate) fn new(settings: Arc<Settings>, home: HomeId) -> Self {
        let guests_dir = guests_dir(settings.home());
        Self {
            settings,
            home,
            guests_dir,
            clusters: tokio::sync::Mutex::default(),
            unmade: Mutex::default(),
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn home(&self) -> &HomeId {
        &self.home
    }

    pub(super) fn guests_dir(&self) -> &Path {
        &self.guests_dir
    }

    async fn open(&self, choice: ClusterChoice) -> Result<OpenCluster, BackendError> {
        let mut clusters = self.clusters.lock().await;
        let cluster = match clusters.get(&choice) {
            Some(known) => known.clone(),
            None => {
                let opened = Cluster::open(&choice).await?;
                clusters.insert(choice.clone(), opened.clone());
                opened
            }
        };
        Ok(OpenCluster { cluster, choice })
    }

    /// Returns the cluster that the settings name.
    pub(super) async fn cluster(&self) -> Result<OpenCluster, BackendError> {
        let choice = settings::cluster(&self.settings)?.ok_or_else(|| BackendError::Advised {
            problem: "terminal.kubernetes_namespace is not set".to_owned(),
            advice: "name the namespace of the sandboxes: vestal config set \
                     terminal.kubernetes_namespace NAMESPACE"
                .to_owned(),
        })?;
        self.open(choice).await
    }

    /// Returns the cluster that an instance is on: the one on record. Without a record it is the
    /// one that the settings name.
    pub(super) async fn cluster_of(
        &self,
        instance: &Instance,
    ) -> Result<OpenCluster, BackendError> {
        let Some(recorded) = PodLocator::of(&instance.locator) else {
            return self.cluster().await;
        };
        if let Ok(now) = self.cluster().await
            && now.cluster.name == recorded.cluster
        {
            return Ok(now);
        }
        let files = settings::cluster(&self.settings)?;
        let choice = ClusterChoice {
            namespace: recorded.cluster.namespace.clone(),
            context: recorded.context.clone(),
            files: files.as_ref().map(|choice| choice.files.clone()).unwrap_or_default(),
            named: files.is_some_and(|choice| choice.named),
        };
        let opened = self.open(choice).await?;
        if self.is_on(&opened.cluster, instance, &recorded).await? {
            return Ok(opened);
        }
        Err(BackendError::Advised {
            problem: format!(
                "the sandbox is in the namespace {} of the cluster {}, which your kubeconfig does \
                 not lead to now",
                recorded.cluster.namespace, recorded.cluster
            ),
            advice:
                "put terminal.kubernetes_context, kubernetes_namespace and your kubeconfig back"
                    .to_owned(),
        })
    }

    /// Returns whether this is the cluster that an instance is on. It may have got another address,
    /// as one on a developer's machine does when it is started: then its objects prove it.
    async fn is_on(
        &self,
        cluster: &Cluster,
        instance: &Instance,
        recorded: &PodLocator,
    ) -> Result<bool, BackendError> {
        if cluster.name == recorded.cluster {
            return Ok(true);
        }
        if cluster.name.namespace != recorded.cluster.namespace {
            return Ok(false);
        }
        let pods = self.pods(cluster, instance).await?;
        if pods.iter().any(|pod| pod.metadata.uid == recorded.uid) {
            return Ok(true);
        }
        let (Some(name), Some(uid)) = (&recorded.claim, &recorded.claim_uid) else {
            return Ok(false);
        };
        let claim = cluster.get::<VolumeClaim>(Kind::Claim, name).await?;
        Ok(claim.is_some_and(|claim| claim.metadata.uid == *uid))
    }

    /// Returns the pods of an instance, the one that counts last.
    async fn pods(&self, cluster: &Cluster, instance: &Instance) -> Result<Vec<Pod>, BackendError> {
        let selector = instance_selector(self.home.as_str(), &instance.id);
        let mut pods = cluster.pods(&selector).await?;
        pods.retain(|pod| pod.is_of(self.home.as_str(), &instance.id));
        pods.sort_by_key(Pod::rank);
        Ok(pods)
    }

    /// Returns the pod of an instance; none if there is none that is ours.
    async fn pod(
        &self,
        cluster: &Cluster,
        instance: &Instance,
    ) -> Result<Option<Pod>, BackendError> {
        Ok(self.pods(cluster, instance).await?.pop())
    }

    fn locator_of(open: &OpenCluster, pod: &Pod, known: Option<PodLocator>) -> Locator {
        let container = pod.container().cloned().unwrap_or_default();
        let known = known.unwrap_or_else(|| PodLocator {
            cluster: open.cluster.name.clone(),
            context: open.choice.context.clone(),
            pod: String::new(),
            uid: String::new(),
            node: String::new(),
            container: String::new(),
            image: String::new(),
            image_id: String::new(),
            claim: None,
            claim_uid: None,
            unenforced: Vec::new(),
            weakened: Vec::new(),
        });
        let found = PodLocator {
            // It may have another address by now.
            cluster: open.cluster.name.clone(),
            pod: pod.metadata.name.clone(),
            uid: one_line(&pod.metadata.uid),
            node: one_line(&pod.spec.node_name),
            container: one_line(&container.container_id),
            image: pod.image().map_or(known.image, one_line),
            image_id: one_line(&container.image_id),
            claim: pod.claim().map(one_line).or(known.claim),
            ..known
        };
        found.to_locator()
    }

    /// Deletes the pods of an instance and what goes with it.
    async fn remove_pods(
        &self,
        cluster: &Cluster,
        instance: &Instance,
    ) -> Result<(), BackendError> {
        for pod in self.pods(cluster, instance).await? {
            delete_and_wait(cluster, &pod, REMOVAL_TIMEOUT).await?;
        }
        remove_policies(cluster, self.home.as_str(), &instance.id, |_| true).await?;
        self.end_filling(cluster, instance).await?;
        // An instance that was never quite made has made its claim for nothing.
        let unused = unused_selector(self.home.as_str(), &instance.id);
        for claim in cluster.claims(&unused).await? {
            let VolumeClaim { metadata } = claim;
            if metadata.label(label::HOME) == Some(self.home.as_str())
                && metadata.label(label::UNUSED) == Some(&*instance.id)
            {
                cluster.delete(Kind::Claim, &metadata.name, &metadata.uid, None).await?;
            }
        }
        Ok(())
    }
}

/// Tells the first process of a pod to end. That it did shows when the pod has ended.
async fn tell_to_end(cluster: &Cluster, pod: &str) {
    let told = async {
        let command = ["/bin/sh", "-c", "kill -TERM 1"];
        match PodExecStream::start(cluster, pod, &command).await {
            Ok(mut stream) => stream.read_to_end(&mut Vec::new()).await.map(drop).ok(),
            Err(_) => None,
        }
    };
    if !matches!(tokio::time::timeout(TELL_TIMEOUT, told).await, Ok(Some(()))) {
        tracing::debug!(pod, "nothing is known of its being told to end");
    }
}

#[async_trait]
impl Backend for Kubernetes {
    fn declaration(&self) -> &'static Declaration {
        &DECLARATION
    }

    async fn probe(&self) -> Availability {
        Availability::of_probe(look(self).await, "try again")
    }

    fn spec(&self, settings: &Settings, overrides: &Overrides) -> Result<Spec, ConfigError> {
        spec_of(settings, overrides)
    }

    async fn create(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        // A cluster that cannot be asked at all has made nothing, which is certain only as long
        // as it has not been asked to.
        let reached = match self.cluster().await {
            Ok(open) => self.pod(&open.cluster, &request.instance).await.map(|_| open),
            Err(error) => Err(error),
        };
        match reached {
            Ok(open) => self.launch(&open, request, PodLaunch::New).await,
            Err(error) => {
                let mut unmade = self.unmade.lock().unwrap_or_else(PoisonError::into_inner);
                unmade.insert(request.instance.id);
                Err(error)
            }
        }
    }

    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError> {
        let open = self.cluster().await?;
        if let Some(recorded) = PodLocator::of(&request.instance.locator)
            && !self.is_on(&open.cluster, &request.instance, &recorded).await?
        {
            let place =
                |name: &super::cluster::ClusterName| format!("{} in {name}", name.namespace);
            return Err(BackendError::OtherSystem {
                was: place(&recorded.cluster),
                now: place(&open.cluster.name),
            });
        }
        self.launch(&open, request, PodLaunch::Again).await
    }

    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError> {
        let OpenCluster { cluster, .. } = self.cluster_of(instance).await?;
        let Some(pod) = self.pod(&cluster, instance).await? else {
            return Ok(InstanceState::Absent);
        };
        Ok(match pod.state() {
            // What a process owned is nobody's to start again, and no cluster removes a pod that
            // has ended.
            InstanceState::Stopped { .. } if pod.is_owned() => InstanceState::Absent,
            state => state,
        })
    }

    async fn connect(&self, instance: &Instance) -> Result<Box<dyn ByteStream>, BackendError> {
        let not_listening = || BackendError::NotListening { id: instance.id.clone() };
        let OpenCluster { cluster, .. } = self.cluster_of(instance).await?;
        let pod = self.pod(&cluster, instance).await?.ok_or_else(not_listening)?;
        let recorded = PodLocator::of(&instance.locator);
        // It may be another one by now.
        let is_recorded = recorded.is_none_or(|recorded| recorded.uid == pod.metadata.uid);
        if !is_recorded || !pod.runs() {
            return Err(not_listening());
        }
        let command = [GUEST_FILE, "connect", IO_DIR];
        match PodExecStream::start(&cluster, &pod.metadata.name, &command).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(ExecFailure::NotRunning) => Err(not_listening()),
            Err(ExecFailure::Failed(error)) => Err(error),
        }
    }

    async fn end(&self, instance: &Instance, timeout: Duration) -> Result<(), BackendError> {
        let OpenCluster { cluster, .. } = self.cluster_of(instance).await?;
        for pod in self.pods(&cluster, instance).await? {
            let uid = pod.metadata.uid.clone();
            let ended = |seen: Option<&Pod>| match seen {
                Some(seen) if seen.metadata.uid == uid => {
                    matches!(seen.state(), InstanceState::Stopped { .. }).then_some(())
                }
                _ => Some(()),
            };
            // The first process, be it the guest or what waits for it, ends when it is told to,
            // and its pod stays as one that ended. The node reports that a moment later.
            let has_ended = if pod.runs() {
                tell_to_end(&cluster, &pod.metadata.name).await;
                let deadline = Instant::now() + REPORT_TIMEOUT;
                cluster.wait_for(&pod.metadata.name, deadline, ended).await?.is_some()
            } else {
                ended(Some(&pod)).is_some()
            };
            if !has_ended {
                delete_and_wait(&cluster, &pod, timeout.max(REMOVAL_TIMEOUT)).await?;
            }
        }
        Ok(())
    }

    async fn remove(&self, instance: &Instance) -> Result<(), BackendError> {
        let unmade =
            self.unmade.lock().unwrap_or_else(PoisonError::into_inner).remove(&instance.id);
        if !unmade {
            let OpenCluster { cluster, .. } = self.cluster_of(instance).await?;
            self.remove_pods(&cluster, instance).await?;
        }
        remove_tree(&instance.dir).map_err(|error| {
            let action = format!("remove {}", instance.dir.display());
            BackendError::io(action)(std::io::Error::other(error))
        })
    }

    async fn find(&self, whose: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        // Without a namespace there is nothing to be found in it.
        if settings::cluster(&self.settings)?.is_none() {
            return Ok(Vec::new());
        }
        let open = self.cluster().await?;
        let selector = match whose {
            InstanceFilter::Key(key) => selector(self.home.as_str(), Some(key)),
            InstanceFilter::Home(home) => selector(home.as_str(), None),
        };
        let mut pods = open.cluster.pods(&selector).await?;
        // One that is being deleted and has ended is as good as gone.
        pods.retain(|pod| !(pod.metadata.is_being_deleted() && pod.has_ended()));
        pods.sort_by_key(Pod::rank);
        let mut found: Vec<FoundInstance> = Vec::new();
        for pod in pods.iter().rev() {
            let instance = pod.found(Self::locator_of(&open, pod, None));
            found.extend(instance.filter(|it| found.iter().all(|known| known.id != it.id)));
        }
        Ok(found)
    }

    fn describe(&self, locator: &Locator) -> Description {
        let Some(known) = PodLocator::of(locator) else {
            return Description::default();
        };
        Description {
            image: Some(known.image).filter(|image| !image.is_empty()),
            image_id: Some(known.image_id).filter(|id| !id.is_empty()),
            name: Some(format!("{}/{}", known.cluster.namespace, known.pod)),
            transport: Some(format!("exec, on the node {}", known.node)),
            unenforced: known.unenforced,
            weakened: known.weakened,
            tier: Some(
                match known.claim {
                    Some(_) => "a pod: only workspace and home outlive it",
                    None => "a pod: nothing outlives it",
                }
                .to_owned(),
            ),
            ..Description::default()
        }
    }

    fn marked(&self) -> Option<&dyn Marked> {
        Some(self)
    }

    fn volume_store(&self) -> Option<&dyn VolumeStore> {
        Some(self)
    }

    fn copies(&self) -> Option<&dyn Copies> {
        Some(self)
    }
}

#[async_trait]
impl Marked for Kubernetes {
    async fn locate(&self, instance: &Instance) -> Result<Locator, BackendError> {
        let open = self.cluster_of(instance).await?;
        let known = PodLocator::of(&instance.locator);
        Ok(match self.pod(&open.cluster, instance).await? {
            Some(pod) => Self::locator_of(&open, &pod, known),
            None => instance.locator.clone(),
        })
    }

    async fn collect(&self, found: &FoundInstance) -> Result<bool, BackendError> {
        let instance =
            Instance { id: found.id.clone(), dir: PathBuf::new(), locator: found.locator.clone() };
        let OpenCluster { cluster, .. } = self.cluster_of(&instance).await?;
        let pods = self.pods(&cluster, &instance).await?;
        let Some(last) = pods.last() else {
            return Ok(false);
        };
        let is_same = PodLocator::of(&found.locator).is_some_and(|it| it.uid == last.metadata.uid);
        let runs =
            |pod: &Pod| matches!(pod.state(), InstanceState::Running | InstanceState::Paused);
        if !is_same || pods.iter().any(runs) {
            return Ok(false);
        }
        // These and no others: nobody holds a lock, and somebody may start it at this moment.
        for pod in &pods {
            delete_and_wait(&cluster, pod, REMOVAL_TIMEOUT).await?;
        }
        let theirs = |name: &str| pods.iter().any(|pod| pod.metadata.name == name);
        remove_policies(&cluster, self.home.as_str(), &instance.id, theirs).await?;
        Ok(true)
    }

    async fn set_aside(&self, _key: &Key) -> Result<(), BackendError> {
        // Each instance has a name of its own.
        Ok(())
    }
}

#[async_trait]
impl VolumeStore for Kubernetes {
    async fn volumes(&self, key: &str) -> Result<Vec<String>, BackendError> {
        if settings::cluster(&self.settings)?.is_none() {
            return Ok(Vec::new());
        }
        let OpenCluster { cluster, .. } = self.cluster().await?;
        let claims = cluster.claims(&selector(self.home.as_str(), Some(key))).await?;
        let namespace = &cluster.name.namespace;
        let there = claims.iter().filter(|claim| !claim.metadata.is_being_deleted());
        Ok(there.map(|claim| format!("{namespace}/{}", one_line(&claim.metadata.name))).collect())
    }

    async fn remove_volumes(&self, key: &str, kept: KeptVolumes) -> Result<(), BackendError> {
        if settings::cluster(&self.settings)?.is_none() {
            return Ok(());
        }
        let OpenCluster { cluster, .. } = self.cluster().await?;
        let selector = selector(self.home.as_str(), Some(key));
        let claims = cluster.claims(&selector).await?;
        for claim in claims.iter().filter(|claim| claim.is_of(self.home.as_str(), key)) {
            let VolumeClaim { metadata } = claim;
            match kept {
                // The next pod begins another state and removes this one from the volume.
                KeptVolumes::Files => {
                    let state = random_hex::<6>().map_err(BackendError::io("get random bytes"))?;
                    let change = serde_json::json!({
                        "metadata": { "uid": metadata.uid, "labels": { label::STATE: state } },
                    });
                    cluster.patch(Kind::Claim, &metadata.name, &change).await?;
                }
                KeptVolumes::None => {
                    cluster.delete(Kind::Claim, &metadata.name, &metadata.uid, None).await?;
                }
            }
        }
        if kept == KeptVolumes::Files || claims.is_empty() {
            return Ok(());
        }
        let deadline = Instant::now() + CLAIM_TIMEOUT;
        loop {
            let left = cluster.claims(&selector).await?;
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let names: Vec<String> =
                    left.iter().map(|claim| one_line(&claim.metadata.name)).collect();
                return Err(BackendError::Advised {
                    problem: format!("the volume claims {} do not go", names.join(", ")),
                    advice: format!("see what uses them: kubectl describe pvc {}", names.join(" ")),
                });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
