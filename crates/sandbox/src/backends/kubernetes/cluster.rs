//! Which cluster it is, and requests to it: plain JSON over the API, because a sandbox needs four
//! kinds of objects and few of their fields, in every version of Kubernetes.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt as _;
use http::{Method, Request};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use kube::api::WatchEvent;
use kube::client::Body;
use kube::config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Error};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::failure::{Refusal, chain, failed, refusal, unreachable};
use super::objects::{List, Pod, Policy, VolumeClaim};
use super::settings::ClusterChoice;
use crate::backend::BackendError;

/// Longest time for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time until a stream to a pod stands, for which its node has to answer, too.
const STREAM_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time until a connection to the API server stands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the cluster is asked to report changes of a pod before it is looked at again.
const WATCH_SECONDS: u64 = 20;

/// Pause after a report of changes that ended early.
const WATCH_PAUSE: Duration = Duration::from_millis(200);

/// A namespace of a cluster, as records and people know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClusterName {
    /// Address of the API server.
    pub(super) server: String,
    pub(super) namespace: String,
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.server)
    }
}

/// The kinds of objects that sandboxes are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Pod,
    Claim,
    Policy,
}

impl Kind {
    fn path(self) -> (&'static str, &'static str) {
        match self {
            Self::Pod => ("api/v1", "pods"),
            Self::Claim => ("api/v1", "persistentvolumeclaims"),
            Self::Policy => ("apis/networking.k8s.io/v1", "networkpolicies"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pod => "a pod",
            Self::Claim => "a volume claim",
            Self::Policy => "a network policy",
        }
    }
}

/// A namespace of a cluster that can be asked.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) name: ClusterName,
    client: Client,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cluster").field(&self.name).finish()
    }
}

impl Cluster {
    /// Reads the kubeconfig. Nothing is asked yet.
    pub(super) async fn open(choice: &ClusterChoice) -> Result<Self, BackendError> {
        let mut merged: Option<Kubeconfig> = None;
        for file in choice.files.iter().filter(|file| file.exists()) {
            let unreadable = |error: kube::config::KubeconfigError| BackendError::Advised {
                problem: format!("{} cannot be used: {}", file.display(), chain(&error)),
                advice: "mend it, or name another one with terminal.kubernetes_config".to_owned(),
            };
            let read = Kubeconfig::read_from(file).map_err(unreadable)?;
            merged = Some(match merged {
                Some(before) => before.merge(read).map_err(unreadable)?,
                None => read,
            });
        }
        let mut config = match merged {
            Some(mut kubeconfig) => {
                never_ask(&mut kubeconfig);
                let options =
                    KubeConfigOptions { context: choice.context.clone(), ..Default::default() };
                Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| {
                    BackendError::Advised {
                        problem: format!(
                            "your kubeconfig names no usable cluster: {}",
                            chain(&error)
                        ),
                        advice: "see `kubectl config get-contexts`, and name one with \
                                 terminal.kubernetes_context"
                            .to_owned(),
                    }
                })?
            }
            None if choice.named || choice.context.is_some() => return Err(no_config(choice)),
            None => Config::incluster().map_err(|_| no_config(choice))?,
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // Streams stay silent as long as their commands do.
        config.read_timeout = None;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let name = ClusterName { server, namespace: choice.namespace.clone() };
        // A program that gives the login, as clouds have one, is waited for there.
        let made = tokio::task::spawn_blocking(move || Client::try_from(config)).await;
        let made = made.unwrap_or_else(|error| Err(Error::Service(error.into())));
        let client = made.map_err(|error| failed(&name, "connect", &error))?;
        Ok(Self { name, client })
    }

    fn url(&self, kind: Kind, rest: &str) -> String {
        let (group, plural) = kind.path();
        format!("/{group}/namespaces/{}/{plural}{rest}", self.name.namespace)
    }

    async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        url: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<T, Error> {
        let mut request = Request::builder().method(method).uri(url);
        if body.is_some() {
            request = request.header(http::header::CONTENT_TYPE, content);
        }
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = request.body(bytes).map_err(Error::HttpError)?;
        match timeout(ANSWER_TIMEOUT, self.client.request(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Service("it did not answer within 30 s".into())),
        }
    }

    /// Returns an object; none if there is none of that name.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        kind: Kind,
        name: &str,
    ) -> Result<Option<T>, BackendError> {
        let url = self.url(kind, &format!("/{name}"));
        match self.request(Method::GET, &url, "", None).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if refusal(&error) == Refusal::NotFound => {
                // The answer is the same where the namespace is not there.
                Ok(None)
            }
            Err(error) => Err(failed(&self.name, &format!("look at {}", kind.name()), &error)),
        }
    }

    /// Makes an object; none if there is one of that name.
    pub(super) async fn create<T: DeserializeOwned>(
        &self,
        kind: Kind,
        object: &Value,
    ) -> Result<Option<T>, BackendError> {
        let url = self.url(kind, "");
        match self.request(Method::POST, &url, "application/json", Some(object)).await {
            Ok(object) => Ok(Some(object)),
            Err(Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => {
                Ok(None)
            }
            Err(error) => Err(failed(&self.name, &format!("make {}", kind.name()), &error)),
        }
    }

    /// Changes fields of an object; gone is fine.
    pub(super) async fn patch(
        &self,
        kind: Kind,
        name: &str,
        change: &Value,
    ) -> Result<(), BackendError> {
        let url = self.url(kind, &format!("/{name}"));
        let content = "application/merge-patch+json";
        match self.request::<Value>(Method::PATCH, &url, content, Some(change)).await {
            Ok(_) => Ok(()),
            Err(error) if refusal(&error) == Refusal::NotFound => Ok(()),
            Err(error) => Err(failed(&self.name, &format!("change {}", kind.name()), &error)),
        }
    }

    /// Asks for the end of an object, which is exactly this one; gone, or another one by now, is
    /// fine. A pod is given the grace, never none: then it would be forgotten before it ends.
    pub(super) async fn delete(
        &self,
        kind: Kind,
        name: &str,
        uid: &str,
        grace: Option<Duration>,
    ) -> Result<(), BackendError> {
        let mut options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid },
        });
        if let Some(grace) = grace {
            options["gracePeriodSeconds"] = json!(grace.as_secs().max(1));
        }
        let url = self.url(kind, &format!("/{name}"));
        let deleted =
            self.request::<Value>(Method::DELETE, &url, "application/json", Some(&options)).await;
        match deleted {
            Ok(_) => Ok(()),
            Err(error) if refusal(&error) != Refusal::Other => Ok(()),
            Err(error) => Err(failed(&self.name, &format!("delete {}", kind.name()), &error)),
        }
    }

    /// Returns the pods with these labels, in one request.
    pub(super) async fn pods(&self, selector: &str) -> Result<Vec<Pod>, BackendError> {
        self.list(Kind::Pod, selector).await
    }

    /// Returns the claims with these labels.
    pub(super) async fn claims(&self, selector: &str) -> Result<Vec<VolumeClaim>, BackendError> {
        self.list(Kind::Claim, selector).await
    }

    /// Returns the network policies with these labels.
    pub(super) async fn policies(&self, selector: &str) -> Result<Vec<Policy>, BackendError> {
        self.list(Kind::Policy, selector).await
    }

    async fn list<T: DeserializeOwned>(
        &self,
        kind: Kind,
        selector: &str,
    ) -> Result<Vec<T>, BackendError> {
        let url = self.url(kind, &format!("?labelSelector={}", escaped(selector)));
        let listed: Result<List<T>, Error> = self.request(Method::GET, &url, "", None).await;
        let listed = listed.map_err(|error| {
            failed(&self.name, &format!("list objects like {}", kind.name()), &error)
        })?;
        Ok(listed.items.unwrap_or_default())
    }

    /// Returns what events say about an object, the newest first; nothing if that may not be read.
    pub(super) async fn events(&self, uid: &str) -> Vec<String> {
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Event {
            message: String,
            r#type: String,
            last_timestamp: Option<String>,
            #[serde(rename = "eventTime")]
            happened: Option<String>,
        }
        let url = format!(
            "/api/v1/namespaces/{}/events?fieldSelector={}&limit=50",
            self.name.namespace,
            escaped(&format!("involvedObject.uid={uid}"))
        );
        let listed: Result<List<Event>, Error> = self.request(Method::GET, &url, "", None).await;
        let events = listed.ok().and_then(|listed| listed.items).unwrap_or_default();
        let mut warnings: Vec<Event> =
            events.into_iter().filter(|event| event.r#type == "Warning").collect();
        // A listing is in the order of names. Times are written so that text sorts as they do.
        warnings.sort_by(|a, b| {
            let time = |event: &Event| event.last_timestamp.clone().or(event.happened.clone());
            time(b).cmp(&time(a))
        });
        warnings.into_iter().map(|event| event.message).collect()
    }

    /// Returns the version of the API server.
    pub(super) async fn version(&self) -> Result<String, BackendError> {
        let version: Value = self
            .request(Method::GET, "/version", "", None)
            .await
            .map_err(|error| failed(&self.name, "report its version", &error))?;
        Ok(version["gitVersion"].as_str().unwrap_or("unknown").to_owned())
    }

    /// Returns the API server's time, to the second; nothing if it does not tell.
    pub(super) async fn clock(&self) -> Option<Timestamp> {
        let request = Request::builder().uri("/version").body(Body::empty()).ok()?;
        let answer = timeout(ANSWER_TIMEOUT, self.client.send(request)).await.ok()?.ok()?;
        let date = answer.headers().get(http::header::DATE)?;
        DateTimeParser::new().parse_timestamp(date.as_bytes()).ok()
    }

    /// Returns whether the user may do something in the namespace.
    pub(super) async fn allows(
        &self,
        verb: &str,
        group: &str,
        resource: &str,
        part: &str,
    ) -> Result<bool, BackendError> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": {
                "namespace": self.name.namespace, "verb": verb, "group": group,
                "resource": resource, "subresource": part,
            } },
        });
        let url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer: Value = self
            .request(Method::POST, url, "application/json", Some(&review))
            .await
            .map_err(|error| failed(&self.name, "report what you may do", &error))?;
        Ok(answer["status"]["allowed"] == true)
    }

    /// Waits until the reported state of a pod (none: it is gone) is what is waited for, or until the
    /// deadline: then none is returned. It is looked at whenever the cluster reports a change.
    pub(super) async fn wait_for<T>(
        &self,
        name: &str,
        deadline: Instant,
        mut wanted: impl FnMut(Option<&Pod>) -> Option<T>,
    ) -> Result<Option<T>, BackendError> {
        loop {
            let seen: Option<Pod> = match self.get(Kind::Pod, name).await {
                Ok(seen) => seen,
                // A server that is just restarted is back in seconds.
                Err(BackendError::HostUnreachable { .. })
                    if Instant::now() + ANSWER_TIMEOUT < deadline =>
                {
                    tokio::time::sleep(WATCH_PAUSE * 5).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(found) = wanted(seen.as_ref()) {
                return Ok(Some(found));
            }
            let version = seen.map(|pod| pod.metadata.resource_version).unwrap_or_default();
            let watched =
                tokio::time::timeout_at(deadline, self.watch(name, &version, &mut wanted));
            match watched.await {
                // What was reported last may not have come.
                Err(_) => {
                    let seen: Option<Pod> = self.get(Kind::Pod, name).await?;
                    return Ok(wanted(seen.as_ref()));
                }
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) if Instant::now() >= deadline => return Ok(None),
                Ok(None) => tokio::time::sleep(WATCH_PAUSE).await,
            }
        }
    }

    async fn watch<T>(
        &self,
        name: &str,
        version: &str,
        wanted: &mut impl FnMut(Option<&Pod>) -> Option<T>,
    ) -> Option<T> {
        let query = format!(
            "?watch=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}&fieldSelector={}",
            escaped(&format!("metadata.name={name}"))
        );
        let request = Request::get(self.url(Kind::Pod, &query)).body(Vec::new()).ok()?;
        let opened = timeout(ANSWER_TIMEOUT, self.client.request_events::<Pod>(request)).await;
        let events = opened.ok()?.ok()?;
        let mut events = std::pin::pin!(events);
        // Where nobody says that the report has ended, it is asked for again all the same.
        let limit = Instant::now() + Duration::from_secs(WATCH_SECONDS + 5);
        while let Ok(Some(Ok(event))) = tokio::time::timeout_at(limit, events.next()).await {
            let found = match &event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => wanted(Some(pod)),
                WatchEvent::Deleted(_) => wanted(None),
                WatchEvent::Bookmark(_) => None,
                WatchEvent::Error(_) => return None,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Opens the streams of a command in a pod.
    pub(super) async fn exec(
        &self,
        pod: &str,
        command: &[&str],
    ) -> Result<kube::client::Connection, Error> {
        let words: Vec<String> =
            command.iter().map(|word| format!("command={}", escaped(word))).collect();
        let query = format!(
            "/{pod}/exec?container={}&stdin=true&stdout=true&stderr=true&tty=false&{}",
            super::manifest::CONTAINER,
            words.join("&")
        );
        let request =
            Request::get(self.url(Kind::Pod, &query)).body(Vec::new()).map_err(Error::HttpError)?;
        match timeout(STREAM_TIMEOUT, self.client.connect(request)).await {
            Ok(connected) => connected,
            Err(_) => Err(Error::Service("the pod's node did not answer within 10 s".into())),
        }
    }

    pub(super) fn unreachable(&self, reason: &str) -> BackendError {
        unreachable(&self.name, reason)
    }
}

/// Keeps programs that give a login from asking for a password or a code on the terminal: nobody
/// may be there, and it belongs to the command.
fn never_ask(kubeconfig: &mut Kubeconfig) {
    let users = kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut());
    for exec in users.filter_map(|user| user.exec.as_mut()) {
        exec.interactive_mode = Some(ExecInteractiveMode::Never);
    }
}

fn no_config(choice: &ClusterChoice) -> BackendError {
    let files: Vec<String> = choice.files.iter().map(|file| file.display().to_string()).collect();
    BackendError::Advised {
        problem: format!("there is no kubeconfig at {}", files.join(", ")),
        advice: "name one with terminal.kubernetes_config or KUBECONFIG".to_owned(),
    }
}

/// Returns text as it may stand in a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.extend(format!("%{byte:02X}").chars());
        }
    }
    escaped
}
