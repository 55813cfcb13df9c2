//! What `vestal doctor` says of a cluster: version, rights, clock.

use jiff::{SignedDuration, Timestamp};

use super::backend::{Kubernetes, OpenCluster};
use super::launch::read_network;
use super::settings::PodSettings;
use crate::Overrides;
use crate::backend::BackendError;
use crate::backends::docker::one_line;

/// What the role of docs/kubernetes.md allows and nothing works without: verb, group, resource,
/// part.
const RIGHTS: &[(&str, &str, &str, &str)] = &[
    ("get", "", "pods", ""),
    ("list", "", "pods", ""),
    ("watch", "", "pods", ""),
    ("create", "", "pods", ""),
    ("delete", "", "pods", ""),
    ("get", "", "pods", "exec"),
    ("create", "", "pods", "exec"),
    ("get", "", "persistentvolumeclaims", ""),
    ("list", "", "persistentvolumeclaims", ""),
    ("create", "", "persistentvolumeclaims", ""),
    ("patch", "", "persistentvolumeclaims", ""),
    ("delete", "", "persistentvolumeclaims", ""),
    ("list", NETWORKING, "networkpolicies", ""),
    ("delete", NETWORKING, "networkpolicies", ""),
];

/// The group of network policies.
const NETWORKING: &str = "networking.k8s.io";

/// How far the clocks may be apart before it is worth a note: certificates and tokens are then
/// taken for too old or not yet valid.
const CLOCKS_APART: SignedDuration = SignedDuration::from_mins(1);

/// Returns what there is to know about the cluster that the settings name, if it can be used.
pub(super) async fn look(backend: &Kubernetes) -> Result<Vec<String>, BackendError> {
    let OpenCluster { cluster, .. } = backend.cluster().await?;
    let version = cluster.version().await?;
    let asked = Timestamp::now();
    let clock = cluster.clock().await;
    let clock = clock.and_then(|told_at| clock_note(told_at, asked, Timestamp::now()));
    let reviews = RIGHTS.iter().map(|(verb, group, resource, part)| {
        let cluster = &cluster;
        async move {
            let allowed = cluster.allows(verb, group, resource, part).await?;
            let slash = if part.is_empty() { "" } else { "/" };
            Ok::<_, BackendError>((!allowed).then(|| format!("{verb} {resource}{slash}{part}")))
        }
    });
    let missing = futures_util::future::try_join_all(reviews).await?;
    let missing: Vec<String> = missing.into_iter().flatten().collect();
    if !missing.is_empty() {
        return Err(BackendError::Advised {
            problem: format!(
                "you may not, in the namespace {} of {}: {}",
                cluster.name.namespace,
                cluster.name,
                missing.join(", ")
            ),
            advice: "ask for the Role in docs/kubernetes.md".to_owned(),
        });
    }
    let mut notes = vec![
        format!(
            "Kubernetes {} at {}, namespace {}",
            one_line(&version),
            cluster.name,
            cluster.name.namespace
        ),
        "workspace and home outlive a pod, what is installed elsewhere does not".to_owned(),
    ];
    notes.extend(clock);
    let egress = !PodSettings::read(backend.settings(), &Overrides::default())?.egress.is_empty();
    if !read_network(backend.settings())? {
        notes.push(
            "terminal.docker_network: false holds only where the cluster's network enforces \
             policies, which cannot be seen from here: docs/kubernetes.md says how to check"
                .to_owned(),
        );
    } else if egress {
        notes.push(
            "terminal.kubernetes_egress holds only where the cluster's network enforces policies, \
             which cannot be seen from here: docs/kubernetes.md says how to check"
                .to_owned(),
        );
    }
    Ok(notes)
}

/// Says how far the API server's clock is from this machine's, if that is worth a note. It told the
/// time between these two moments, in whole seconds.
fn clock_note(told_at: Timestamp, asked: Timestamp, answered: Timestamp) -> Option<String> {
    let (behind, ahead) = (asked.duration_since(told_at), told_at.duration_since(answered));
    let words = |apart: SignedDuration, which: &str| {
        format!(
            "the API server's clock is {apart:#} {which} this machine's: logins may be refused as \
             expired or not yet valid; set the one that is wrong"
        )
    };
    if behind > CLOCKS_APART {
        return Some(words(behind, "behind"));
    }
    (ahead > CLOCKS_APART).then(|| words(ahead, "ahead of"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_by_a_day_is_reported_and_one_that_goes_with_the_answer_is_not() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let note = |told: i64| clock_note(at(told), at(100_000), at(100_002));
        for fine in [100_000, 100_002, 99_950, 100_060] {
            assert_eq!(note(fine), None, "{fine}");
        }
        let behind = note(100_000 - 86_400).unwrap();
        assert!(behind.contains("24h") && behind.contains("behind this"), "{behind}");
        let ahead = note(100_002 + 86_400).unwrap();
        assert!(ahead.contains("24h") && ahead.contains("ahead of this"), "{ahead}");
    }
}
