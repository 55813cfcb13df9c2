//! The claim of a sandbox: made when there is none, and what of it counts.

use std::time::Duration;

use tokio::time::Instant;

use super::cluster::{Cluster, Kind};
use super::manifest::{FileTree, claim, claim_name, label};
use super::objects::VolumeClaim;
use super::settings::PodSettings;
use crate::backend::{BackendError, InstanceRequest};
use crate::key::random_hex;

/// Longest time until a claim that is being deleted is gone.
const CLAIM_TIMEOUT: Duration = Duration::from_mins(1);

/// A claim that is there.
#[derive(Debug)]
pub(super) struct ClaimedFiles {
    pub(super) name: String,
    pub(super) uid: String,
    /// Which of the guests' states on it counts.
    pub(super) state: String,
    /// Whether it is marked as one that no guest has used.
    pub(super) unused: bool,
    /// Which of the trees on it counts.
    pub(super) tree: FileTree,
    /// Whether another one might count again.
    pub(super) unsettled: bool,
}

/// Returns the claim of a sandbox, made if there is none.
pub(super) async fn ensure_claim(
    cluster: &Cluster,
    request: &InstanceRequest,
    settings: &PodSettings,
) -> Result<ClaimedFiles, BackendError> {
    let name = claim_name(&request.key);
    let deadline = Instant::now() + CLAIM_TIMEOUT;
    loop {
        let there = match cluster.get::<VolumeClaim>(Kind::Claim, &name).await? {
            Some(there) => Some(there),
            None => {
                let state = random_hex::<6>().map_err(BackendError::io("get random bytes"))?;
                let wanted = claim(&request.key, settings, &state, &request.instance.id);
                cluster.create::<VolumeClaim>(Kind::Claim, &wanted).await?
            }
        };
        let ours = |it: &VolumeClaim| it.is_of(request.key.home().as_str(), &request.key.hash());
        match there {
            Some(there) if !ours(&there) => {
                return Err(BackendError::Advised {
                    problem: format!("the volume claim {name} is not this sandbox's"),
                    advice: format!("look at it: kubectl get pvc {name} -o yaml"),
                });
            }
            Some(VolumeClaim { metadata }) if !metadata.is_being_deleted() => {
                let state = metadata.label(label::STATE).unwrap_or("state").to_owned();
                let unused = metadata.label(label::UNUSED).is_some();
                let tree = FileTree::of(metadata.label(label::FILES));
                let unsettled = metadata.label(label::FILES_BY).is_some();
                let uid = metadata.uid;
                return Ok(ClaimedFiles { name, uid, state, unused, tree, unsettled });
            }
            // It goes, or somebody makes it at this moment.
            _ => {}
        }
        if Instant::now() >= deadline {
            return Err(BackendError::Advised {
                problem: format!("the volume claim {name} is being deleted and does not go"),
                advice: format!("see what uses it: kubectl describe pvc {name}"),
            });
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Marks a claim as one that no guest has used, for this instance, or as one that a guest may
/// have. An instance that was never quite made takes the former along.
pub(super) async fn mark_claim(
    cluster: &Cluster,
    files: &ClaimedFiles,
    unused_by: Option<&str>,
) -> Result<(), BackendError> {
    let change = serde_json::json!({
        "metadata": { "uid": files.uid, "labels": { label::UNUSED: unused_by } },
    });
    cluster.patch(Kind::Claim, &files.name, &change).await
}

/// Lets the tree of files that counts do so for good.
pub(super) async fn settle_claim(
    cluster: &Cluster,
    files: &ClaimedFiles,
) -> Result<(), BackendError> {
    let labels = serde_json::json!({ label::FILES_BEFORE: null, label::FILES_BY: null });
    let change = serde_json::json!({ "metadata": { "uid": files.uid, "labels": labels } });
    cluster.patch(Kind::Claim, &files.name, &change).await
}
