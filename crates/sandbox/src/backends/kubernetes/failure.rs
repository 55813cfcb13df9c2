//! What a cluster answers when it refuses, in words with advice.

use kube::Error;
use kube::core::Status;

use super::cluster::ClusterName;
use crate::backend::BackendError;
use crate::backends::docker::one_line;

/// What an answer means, where callers act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no such object.
    NotFound,
    /// There is one of that name, or it is another one by now.
    Conflict,
    /// Anything else, or no answer.
    Other,
}

/// Returns what an error means.
pub(super) fn refusal(error: &Error) -> Refusal {
    match error {
        Error::Api(status) if status.code == 404 => Refusal::NotFound,
        Error::Api(status) if status.code == 409 => Refusal::Conflict,
        _ => Refusal::Other,
    }
}

/// Returns the error for who asked the cluster to do something.
pub(super) fn failed(cluster: &ClusterName, action: &str, error: &Error) -> BackendError {
    match error {
        Error::Api(status) => refused(cluster, action, status),
        Error::Auth(error) => BackendError::Advised {
            problem: format!("the cluster {cluster} cannot be logged in to: {}", chain(error)),
            advice: "see that this works: kubectl auth can-i --list".to_owned(),
        },
        // The cluster answered something else than Kubernetes does.
        Error::SerdeError(_) | Error::FromUtf8(_) => BackendError::Advised {
            problem: format!("the cluster {cluster} gave an answer that is none: {}", chain(error)),
            advice: "see whether the address in your kubeconfig is that of a Kubernetes API server"
                .to_owned(),
        },
        other => unreachable(cluster, &chain(other)),
    }
}

/// Returns the error for a cluster that cannot be reached now. It says nothing about what runs
/// there.
pub(super) fn unreachable(cluster: &ClusterName, reason: &str) -> BackendError {
    BackendError::HostUnreachable {
        host: format!("the cluster {cluster}"),
        reason: one_line(reason),
        advice: "see whether its API server is up and reached: kubectl version".to_owned(),
    }
}

fn refused(cluster: &ClusterName, action: &str, status: &Status) -> BackendError {
    let words = one_line(&status.message);
    let advised = |problem: String, advice: String| BackendError::Advised { problem, advice };
    let namespace = &cluster.namespace;
    match status.code {
        401 => advised(
            format!("the cluster {cluster} does not accept your login: {words}"),
            "log in again; see that this works: kubectl auth can-i --list".to_owned(),
        ),
        403 if words.contains("exceeded quota") || words.contains("must specify limits") => {
            advised(
                format!("a quota of the namespace {namespace} does not allow to {action}: {words}"),
                "remove sandboxes that are not needed (`vestal ps --all`, `vestal rm`), lower \
             terminal.container_cpu, container_memory or kubernetes_storage_size, or ask for a \
             larger quota"
                    .to_owned(),
            )
        }
        403 if words.contains("is being terminated") => advised(
            format!("the namespace {namespace} is being deleted"),
            "name another one with terminal.kubernetes_namespace".to_owned(),
        ),
        // A missing permission is recognised by the words of the authorizer; all else that is forbidden was
        // let through by it, and refused for what was asked for.
        403 if words.contains(" cannot ") && words.contains(" resource ") => advised(
            format!("you may not {action} in the namespace {namespace}: {words}"),
            "ask for the Role in docs/kubernetes.md".to_owned(),
        ),
        403 if words.contains(" per Container is ")
            || words.contains(" per Pod is ")
            || words.contains(" per PersistentVolumeClaim is ") =>
        {
            advised(
                format!(
                    "a limit range of the namespace {namespace} does not allow to {action}: {words}"
                ),
                "set terminal.container_cpu, container_memory, kubernetes_reserve or \
                 kubernetes_storage_size to what it allows: kubectl describe limitrange"
                    .to_owned(),
            )
        }
        403 if words.contains("not found") => advised(
            format!("the cluster {cluster} has not what was named ({action}): {words}"),
            "correct the setting that is named".to_owned(),
        ),
        403 => advised(
            format!("a policy of the cluster does not allow to {action}: {words}"),
            "a namespace that enforces the level `restricted` takes sandboxes with \
             terminal.kubernetes_run_as_user set; for other rules ask who made them"
                .to_owned(),
        ),
        404 if words.contains("namespaces ") => advised(
            format!("there is no namespace {namespace} in the cluster {cluster}"),
            format!(
                "make it (kubectl create namespace {namespace}) or name another one with \
                     terminal.kubernetes_namespace"
            ),
        ),
        422 | 400 => advised(
            format!(
                "the cluster {cluster} does not take what it was asked for ({action}): {words}"
            ),
            "correct the setting that is named".to_owned(),
        ),
        // It is there and cannot answer at the moment.
        429 | 500..=599 => unreachable(cluster, &format!("it could not {action}: {words}")),
        _ => BackendError::Engine { action: action.to_owned(), message: words },
    }
}

/// Returns an error with what caused it.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = next.source();
    }
    one_line(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> ClusterName {
        ClusterName { server: "https://10.0.0.1:6443".into(), namespace: "agents".into() }
    }

    fn answer(code: u16, message: &str) -> BackendError {
        let status = Status { code, message: message.to_owned(), ..Status::default() };
        failed(&name(), "make a pod", &Error::Api(status.boxed()))
    }

    #[test]
    fn each_refusal_is_reported_in_words_with_advice() {
        for (code, message, problem) in [
            (401, "Unauthorized", "does not accept your login"),
            (
                403,
                "pods \"p\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
                "a quota of the namespace agents does not allow to make a pod",
            ),
            (
                403,
                "pods is forbidden: User \"u\" cannot create resource \"pods\"",
                "you may not make a pod",
            ),
            (
                403,
                "pods \"p\" is forbidden: maximum cpu usage per Container is 500m, but limit is 1",
                "a limit range of the namespace agents does not allow to make a pod",
            ),
            (
                403,
                "pods \"p\" is forbidden: error looking up service account agents/a: \
                 serviceaccount \"a\" not found",
                "has not what was named",
            ),
            (
                403,
                "pods \"p\" is forbidden: admission webhook denied it",
                "a policy of the cluster",
            ),
            (404, "namespaces \"agents\" not found", "there is no namespace agents"),
            (422, "Pod \"p\" is invalid", "does not take what it was asked for"),
            (403, "violates PodSecurity \"restricted:latest\"", "a policy of the cluster"),
        ] {
            let error = answer(code, message);
            assert!(error.to_string().contains(problem), "{error}");
            assert!(error.advice().is_some(), "{error}");
            assert!(error.is_final(), "{error}");
        }
    }

    #[test]
    fn a_server_that_is_overloaded_says_nothing_about_what_runs() {
        for code in [429, 500, 503, 504] {
            let error = answer(code, "try later");
            assert!(matches!(error, BackendError::HostUnreachable { .. }), "{error:?}");
        }
    }

    #[test]
    fn what_a_cluster_says_is_shown_on_one_line_without_control_characters() {
        let hostile = format!("\x1b[2J\n{}", "a".repeat(100_000));
        let text = answer(403, &hostile).to_string();
        assert!(text.len() < 8192 && !text.chars().any(char::is_control), "{text}");
    }
}
