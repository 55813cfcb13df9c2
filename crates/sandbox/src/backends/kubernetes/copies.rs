//! Copies of a sandbox's files, on its own volume claim: a snapshot is a tree beside the one that
//! counts, and what is made of one is a tree of its own. So a copy takes no further claim and no
//! right in the cluster, and works with every storage class.
//!
//! ```text
//! workspace/ home/             the tree of a new claim
//! trees/<instance>/…           one that was copied there: a restored or forked sandbox
//! copies/<copy>/…              a snapshot
//! ```
//!
//! Files are copied by the stage, in a pod that has the claims for as long as that takes.

use std::path::Path;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::time::{Duration, timeout};

use super::backend::{Kubernetes, OpenCluster};
use super::cluster::{Cluster, Kind};
use super::exec::{ExecFailure, PodExecStream};
use super::launch::{REMOVAL_TIMEOUT, delete_and_wait, wait_until_runs};
use super::manifest::{
    COPIES_DIR, FileTree, HELPER_FROM, HELPER_TO, HelperPlan, PARTS, TREES_DIR, copy_selector,
    helper_selector, label, selector,
};
use super::objects::{Pod, PodLocator, VolumeClaim};
use super::settings::PodSettings;
use super::upload::{PodUpload, put_program};
use crate::backend::{
    BackendError, Base, CopiedPart, Copies, CopyTotals, Instance, InstanceRequest, SavedSystem,
};
use crate::backends::copying::CopyReport;
use crate::backends::docker::one_line;
use crate::backends::own_system::GUEST_FILE;
use crate::key::{hex, random_hex};
use crate::{Overrides, Progress, ProgressSink};

/// Longest time without a word of the program that copies.
const STALL_TIMEOUT: Duration = Duration::from_mins(5);

/// Longest time for a small command in a pod that copies.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(10);

/// Longest line of the program that copies.
const MAX_LINE: u64 = 64 << 10;

/// A copy on a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedTree {
    #[serde(flatten)]
    cluster: super::cluster::ClusterName,
    claim: String,
    claim_uid: String,
    copy: String,
}

/// A tree to copy.
#[derive(Debug)]
struct SourceTree {
    claim: VolumeClaim,
    /// Its directory on the claim; empty for the top.
    tree: TreeOnClaim,
}

/// Which tree of a claim it is.
#[derive(Debug)]
enum TreeOnClaim {
    Counting(FileTree),
    Copy(String),
}

impl TreeOnClaim {
    fn part(&self, part: &str) -> String {
        match self {
            Self::Counting(tree) => tree.part(part),
            Self::Copy(copy) => format!("{COPIES_DIR}/{copy}/{part}"),
        }
    }
}

/// Returns the name of a copy, by the directory that is kept for it: the part of its path that is
/// the same when the home is moved.
fn copy_id(dir: &Path) -> String {
    let parts: Vec<_> = dir.components().rev().take(4).collect();
    let mut digest = Sha256::new();
    for part in parts.iter().rev() {
        digest.update(part.as_os_str().as_encoded_bytes());
        digest.update([0]);
    }
    hex(&digest.finalize()[..8])
}

impl Kubernetes {
    /// Returns the claim of an instance.
    async fn claim_of(
        &self,
        cluster: &Cluster,
        instance: &Instance,
    ) -> Result<VolumeClaim, BackendError> {
        let located = PodLocator::of(&instance.locator);
        let name = located.as_ref().and_then(|located| located.claim.as_deref());
        let claim = match name {
            Some(name) => cluster.get::<VolumeClaim>(Kind::Claim, name).await?,
            None => None,
        };
        let is_ours = |claim: &VolumeClaim| {
            claim.metadata.label(label::HOME) == Some(self.home().as_str())
                && !claim.metadata.is_being_deleted()
        };
        claim.filter(is_ours).ok_or_else(|| BackendError::Advised {
            problem: "it has no volume claim, so there are no files to copy".to_owned(),
            advice: "use it once, and try again".to_owned(),
        })
    }

    /// Returns what an instance is to be made of.
    async fn source(&self, cluster: &Cluster, base: &Base) -> Result<SourceTree, BackendError> {
        match base {
            Base::Instance(instance) => {
                let claim = self.claim_of(cluster, instance).await?;
                let tree = FileTree::of(claim.metadata.label(label::FILES));
                Ok(SourceTree { claim, tree: TreeOnClaim::Counting(tree) })
            }
            Base::Saved { saved, .. } => {
                let unusable = |why: &str| BackendError::Advised {
                    problem: format!("the copy cannot be used: {why}"),
                    advice: "use another snapshot".to_owned(),
                };
                let saved: SavedTree = serde_json::from_value(saved.clone())
                    .map_err(|error| unusable(&error.to_string()))?;
                let claim = cluster.get::<VolumeClaim>(Kind::Claim, &saved.claim).await?;
                let claim = claim.filter(|claim| claim.metadata.uid == saved.claim_uid);
                let claim = claim.ok_or_else(|| {
                    unusable(&format!(
                        "its volume claim {} is not in the namespace {} of {}",
                        saved.claim, cluster.name.namespace, cluster.name
                    ))
                })?;
                Ok(SourceTree { claim, tree: TreeOnClaim::Copy(saved.copy) })
            }
        }
    }

    /// Fills the claim of an instance to make with what it begins with, as a tree of its own, and
    /// lets that one count. Until the instance is settled the one before can count again.
    pub(super) async fn fill(
        &self,
        open: &OpenCluster,
        request: &InstanceRequest,
        settings: &PodSettings,
        target: &str,
        base: &Base,
    ) -> Result<FileTree, BackendError> {
        let cluster = &open.cluster;
        let source = self.source(cluster, base).await?;
        let tree = FileTree::Copied(request.instance.id.clone());
        let helper = HelperPod {
            backend: self,
            cluster,
            settings,
            of: &request.instance.id,
            from: &source.claim.metadata.name,
            to: target,
        };
        let claim = cluster.get::<VolumeClaim>(Kind::Claim, target).await?.unwrap_or_default();
        let before = FileTree::of(claim.metadata.label(label::FILES));
        let pod = helper.start(&request.progress).await?;
        let copied = async {
            helper.tidy(&pod, &before).await?;
            helper
                .command(&pod, &format!("mkdir -p '{HELPER_TO}/{TREES_DIR}/{}'", tree.label()))
                .await?;
            for part in PARTS {
                let what = format!("the sandbox's {part}");
                let (from, to) = (source.tree.part(part), tree.part(part));
                helper.copy(&pod, &from, &to, &what, &request.progress).await?;
            }
            helper.command(&pod, "sync || true").await
        };
        let copied = copied.await;
        helper.end(&pod).await?;
        copied?;
        let change = json!({ "metadata": { "uid": claim.metadata.uid, "labels": {
            label::FILES: tree.label(),
            label::FILES_BEFORE: before.label(),
            label::FILES_BY: request.instance.id,
        } } });
        cluster.patch(Kind::Claim, target, &change).await?;
        Ok(tree)
    }

    /// Ends what an instance has begun with its claims: removed before it was settled, the tree
    /// from before counts again; else the one that was copied for it counts for good.
    pub(super) async fn end_filling(
        &self,
        cluster: &Cluster,
        instance: &Instance,
    ) -> Result<(), BackendError> {
        self.end_helpers(cluster, &instance.id).await?;
        let by =
            format!("{},{}={}", selector(self.home().as_str(), None), label::FILES_BY, instance.id);
        for VolumeClaim { metadata } in cluster.claims(&by).await? {
            let mut labels = json!({ label::FILES_BEFORE: null, label::FILES_BY: null });
            // Only what is on record has a locator.
            if instance.locator.is_null() {
                let before = FileTree::of(metadata.label(label::FILES_BEFORE));
                labels[label::FILES] = before.label().into();
            }
            let change = json!({ "metadata": { "uid": metadata.uid, "labels": labels } });
            cluster.patch(Kind::Claim, &metadata.name, &change).await?;
        }
        Ok(())
    }

    /// Ends the pods that do something for a copy or an instance.
    async fn end_helpers(&self, cluster: &Cluster, of: &str) -> Result<(), BackendError> {
        for pod in cluster.pods(&helper_selector(self.home().as_str(), of)).await? {
            if pod.metadata.label(label::HELPER) == Some(of) {
                delete_and_wait(cluster, &pod, REMOVAL_TIMEOUT).await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Copies for Kubernetes {
    fn copied_part(&self) -> CopiedPart {
        CopiedPart::Files
    }

    async fn save(
        &self,
        instance: &Instance,
        into: &Path,
        progress: &ProgressSink,
    ) -> Result<SavedSystem, BackendError> {
        let open = self.cluster_of(instance).await?;
        let cluster = &open.cluster;
        let claim = self.claim_of(cluster, instance).await?;
        let (name, uid) = (&claim.metadata.name, &claim.metadata.uid);
        let copy = copy_id(into);
        // Where it is, is known before it is there.
        let mark = format!("{}{copy}", label::COPY);
        let change = json!({ "metadata": {
            "uid": uid, "labels": { (mark): "1" },
        } });
        cluster.patch(Kind::Claim, name, &change).await?;
        let settings = PodSettings::read(self.settings(), &Overrides::default())?;
        let tree = FileTree::of(claim.metadata.label(label::FILES));
        let helper = HelperPod {
            backend: self,
            cluster,
            settings: &settings,
            of: &copy,
            from: name,
            to: name,
        };
        let pod = helper.start(progress).await?;
        let copied = async {
            let dir = format!("'{HELPER_TO}/{COPIES_DIR}/{copy}'");
            helper.tidy(&pod, &tree).await?;
            helper.command(&pod, &format!("rm -rf {dir}; mkdir -p {dir}")).await?;
            for part in PARTS {
                let what = format!("the sandbox's {part}");
                let to = format!("{COPIES_DIR}/{copy}/{part}");
                helper.copy(&pod, &tree.part(part), &to, &what, progress).await?;
            }
            helper.command(&pod, "sync || true").await
        };
        let copied = copied.await;
        helper.end(&pod).await?;
        copied?;
        let saved = SavedTree {
            cluster: cluster.name.clone(),
            claim: name.clone(),
            claim_uid: uid.clone(),
            copy,
        };
        serde_json::to_value(saved).map_err(|error| BackendError::Io {
            action: "record the copy".to_owned(),
            source: error.into(),
        })
    }

    async fn discard(&self, dir: &Path) -> Result<(), BackendError> {
        if super::settings::cluster(self.settings())?.is_none() {
            return Ok(());
        }
        let open = self.cluster().await?;
        let (cluster, copy) = (&open.cluster, copy_id(dir));
        self.end_helpers(cluster, &copy).await?;
        let settings = PodSettings::read(self.settings(), &Overrides::default())?;
        for claim in cluster.claims(&copy_selector(self.home().as_str(), &copy)).await? {
            let (name, uid) = (&claim.metadata.name, &claim.metadata.uid);
            if claim.metadata.is_being_deleted() {
                continue;
            }
            let helper = HelperPod {
                backend: self,
                cluster,
                settings: &settings,
                of: &copy,
                from: name,
                to: name,
            };
            let pod = helper.start(&ProgressSink::default()).await?;
            let removed =
                helper.command(&pod, &format!("rm -rf '{HELPER_TO}/{COPIES_DIR}/{copy}'")).await;
            helper.end(&pod).await?;
            removed?;
            let mark = format!("{}{copy}", label::COPY);
            let change = json!({ "metadata": {
                "uid": uid, "labels": { (mark): null },
            } });
            cluster.patch(Kind::Claim, name, &change).await?;
        }
        Ok(())
    }
}

/// A pod that has claims to copy or remove files.
#[derive(Debug)]
struct HelperPod<'a> {
    backend: &'a Kubernetes,
    cluster: &'a Cluster,
    settings: &'a PodSettings,
    of: &'a str,
    from: &'a str,
    to: &'a str,
}

impl HelperPod<'_> {
    /// Makes the pod, and waits until it has the program that copies.
    async fn start(&self, progress: &ProgressSink) -> Result<Pod, BackendError> {
        let home = self.backend.home();
        let random = random_hex::<3>().map_err(BackendError::io("get random bytes"))?;
        let name = format!("vestal-copy-{}-{random}", self.of);
        // A volume is had by one node only; who has it now decides which.
        let running = self.cluster.pods(&selector(home.as_str(), None)).await?;
        let has = |pod: &&Pod| {
            !pod.has_ended() && [Some(self.from), Some(self.to)].contains(&pod.claim())
        };
        let node = running.iter().find(has).map(|pod| pod.spec.node_name.clone());
        let plan = HelperPlan {
            name: &name,
            home: home.as_str(),
            of: self.of,
            settings: self.settings,
            to: self.to,
            from: self.from,
            node: node.as_deref().filter(|node| !node.is_empty()),
        };
        let made = self.cluster.create::<Pod>(Kind::Pod, &plan.pod()).await?;
        let made = made.ok_or_else(|| BackendError::Advised {
            problem: format!("there is a pod {name} already"),
            advice: "try again".to_owned(),
        })?;
        let up = async {
            let pod = wait_until_runs(self.cluster, self.settings, &made, progress).await?;
            let program = PodUpload::Stage;
            put_program(self.backend, self.cluster, &pod, &program, progress).await?;
            Ok::<_, BackendError>(pod)
        };
        match up.await {
            Ok(pod) => Ok(pod),
            Err(error) => {
                self.end(&made).await?;
                Err(error)
            }
        }
    }

    /// Removes what an earlier copy has left, as far as nothing can count any more.
    async fn tidy(&self, pod: &Pod, counts: &FileTree) -> Result<(), BackendError> {
        let top = match counts {
            FileTree::Top => String::new(),
            FileTree::Copied(_) => format!("rm -rf {} {}; ", PARTS[0], PARTS[1]),
        };
        let text = format!(
            "cd '{HELPER_TO}' || exit 1; {top}for d in {TREES_DIR}/*; do \
             if [ \"$d\" != '{TREES_DIR}/{}' ]; then rm -rf \"$d\"; fi; done",
            counts.label()
        );
        self.command(pod, &text).await
    }

    /// Runs shell text in the pod.
    async fn command(&self, pod: &Pod, text: &str) -> Result<(), BackendError> {
        let mut stream = self.exec(pod, &["/bin/sh", "-c", text]).await?;
        let mut said = Vec::new();
        let mut bounded = (&mut stream).take(MAX_LINE);
        match timeout(COMMAND_TIMEOUT, bounded.read_to_end(&mut said)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(BackendError::Io {
                action: "change the files of the claim".to_owned(),
                source: error,
            }),
            Err(_) => Err(self.cluster.unreachable("the pod that copies does not answer")),
        }
    }

    /// Copies a directory, if it is there.
    async fn copy(
        &self,
        pod: &Pod,
        from: &str,
        to: &str,
        what: &str,
        progress: &ProgressSink,
    ) -> Result<CopyTotals, BackendError> {
        let (from, to) = (format!("{HELPER_FROM}/{from}"), format!("{HELPER_TO}/{to}"));
        let stream = self.exec(pod, &[GUEST_FILE, "copy", &*from, &*to]).await?;
        let mut lines = BufReader::new(stream);
        let mut last = None;
        let failed = |reason: String| BackendError::Io {
            action: format!("copy {what}"),
            source: std::io::Error::other(reason),
        };
        loop {
            let mut line = Vec::new();
            let reading = async { (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line).await };
            let next = timeout(STALL_TIMEOUT, reading).await;
            let next = next.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
            match next {
                Ok(0) => break,
                Ok(_) => {}
                // It has reported itself how it ended.
                Err(_) if last.is_some() => break,
                Err(error) => return Err(failed(one_line(&error.to_string()))),
            }
            match CopyReport::parse(&String::from_utf8_lossy(&line)) {
                Some(CopyReport::Progress { files, bytes, total }) => {
                    let what = what.to_owned();
                    progress.report(Progress::Copying { what, files, bytes, total });
                }
                Some(end) => last = Some(end),
                None => {}
            }
        }
        match last {
            Some(CopyReport::Done(copied)) => {
                progress.report(copied.as_progress(what));
                Ok(copied)
            }
            Some(CopyReport::Failed(failure)) => Err(failure.explain(what, Path::new(&to))),
            _ => Err(failed("the program that copies ended without a result".to_owned())),
        }
    }

    async fn exec(&self, pod: &Pod, command: &[&str]) -> Result<PodExecStream, BackendError> {
        match PodExecStream::start(self.cluster, &pod.metadata.name, command).await {
            Ok(stream) => Ok(stream),
            Err(ExecFailure::Failed(error)) => Err(error),
            Err(ExecFailure::NotRunning) => {
                Err(BackendError::GuestFailed { reason: "the pod that copies ended".to_owned() })
            }
        }
    }

    /// Ends the pod. Nothing of it has the claim afterwards.
    async fn end(&self, pod: &Pod) -> Result<(), BackendError> {
        delete_and_wait(self.cluster, pod, REMOVAL_TIMEOUT).await
    }
}
