use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::backend::{Backend as _, Marked as _};
use crate::backends::docker::api::fake_engine::{FakeEngine, answer};

#[test]
fn only_the_container_itself_and_its_layers_can_be_lost() {
    let id = "4f5e6d7c".repeat(8);
    let cases = [
        (format!("No such container: {id}"), true),
        (format!("container {id} is marked for removal and cannot be started"), true),
        (format!("no container with name or ID \"{id}\" found: no such container"), true),
        ("layer does not exist".to_owned(), true),
        // Docker's message for a missing container whose network is shared.
        ("No such container: proxy".to_owned(), false),
        (format!("cannot join network of {}: No such container: {}", "proxy", &id[..12]), false),
        ("no space left on device".to_owned(), false),
    ];
    for (message, expected) in cases {
        assert_eq!(is_lost(&message, &id), expected, "{message}");
    }
}

const INSTANCE: &str = "0123456789abcdef";

fn key() -> Key {
    Key::new(HomeId("h".into()), "p", "task".parse().unwrap())
}

/// Returns the labels, name and mounts of the sandbox's container.
fn container(state: &Value) -> Value {
    let mut labels: serde_json::Map<String, Value> =
        key().labels().map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect();
    let more = [
        ("vestal-key", key().hash()),
        ("vestal-home", "h".to_owned()),
        ("vestal-instance", INSTANCE.to_owned()),
        ("vestal-spec", "s".to_owned()),
        ("vestal-persist", "1".to_owned()),
        ("vestal-generation", "1".to_owned()),
    ];
    labels.extend(more.map(|(name, value)| (name.to_owned(), value.into())));
    let boot = format!("/home/ada/.vestal/sandboxes/x/instances/{INSTANCE}/boot");
    let name = format!("/{}", container_name(&key(), None));
    json!({
        "Id": "c1", "Name": name, "Names": [name], "Labels": labels, "State": state,
        "Config": { "Labels": labels },
        "Mounts": [{ "Type": "bind", "Source": boot, "Destination": "/.vestal/boot" }],
    })
}

/// Starts an engine with one container in this state. The first `failures` inspections
/// are answered with an internal error.
fn engine(state: &'static str, failures: usize) -> FakeEngine {
    let inspections = AtomicUsize::new(0);
    FakeEngine::start(move |head| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        if head.starts_with("POST ") {
            return answer("204 No Content", "");
        }
        if path.contains("/containers/c1/json") {
            if inspections.fetch_add(1, Ordering::Relaxed) < failures {
                return answer("500 Internal Server Error", r#"{"message": "something broke"}"#);
            }
            return answer("200 OK", &container(&json!({ "Status": state })).to_string());
        }
        if path.contains("/containers/json") {
            return answer("200 OK", &json!([container(&json!(state))]).to_string());
        }
        answer("200 OK", "{}")
    })
}

fn backend(engine: &FakeEngine) -> Docker {
    Docker::new(Arc::new(engine.settings()), HomeId("h".into()))
}

/// Returns the paths of the requests that change something.
fn changes(engine: &FakeEngine) -> Vec<String> {
    let requests = engine.requests();
    let changing = requests.iter().filter(|head| !head.starts_with("GET "));
    changing.filter_map(|head| head.split(' ').nth(1).map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_transient_error_of_the_engine_is_not_noticed() {
    let engine = engine("running", 2);
    let dir = tempfile::tempdir().unwrap();
    let instance =
        Instance { id: INSTANCE.to_owned(), dir: dir.path().to_owned(), locator: Value::Null };
    let state = backend(&engine).state(&instance).await.unwrap();
    assert_eq!((state, changes(&engine)), (InstanceState::Running, vec![]));
}

#[tokio::test]
async fn a_lasting_error_of_the_engine_is_an_error_and_touches_nothing() {
    let engine = engine("running", usize::MAX);
    let dir = tempfile::tempdir().unwrap();
    let instance =
        Instance { id: INSTANCE.to_owned(), dir: dir.path().to_owned(), locator: Value::Null };
    let error = backend(&engine).state(&instance).await.unwrap_err();
    assert!(error.to_string().contains("something broke"), "{error}");
    assert_eq!(changes(&engine), Vec::<String>::new());
}

#[tokio::test]
async fn a_running_container_is_not_set_aside() {
    // The error has passed, passes meanwhile, or stays.
    for failures in [0, 2, usize::MAX] {
        for state in ["running", "paused", "restarting"] {
            let engine = engine(state, failures);
            let error = backend(&engine).set_aside(&key()).await.unwrap_err();
            assert!(error.to_string().contains("is running"), "{error}");
            assert!(error.advice().unwrap().contains("docker kill"));
            assert_eq!(changes(&engine), Vec::<String>::new(), "{state} {failures}");
        }
    }
}

#[tokio::test]
async fn a_stopped_container_is_set_aside_and_only_renamed() {
    for failures in [0, usize::MAX] {
        let engine = engine("exited", failures);
        backend(&engine).set_aside(&key()).await.unwrap();
        let changes = changes(&engine);
        let rename = format!("/v1.41/containers/c1/rename?name={}", container_name(&key(), None));
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert!(changes[0].starts_with(&format!("{rename}-aside-")), "{changes:?}");
    }
}
