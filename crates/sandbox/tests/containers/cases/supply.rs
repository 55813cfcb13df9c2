//! Where images come from.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use vestal_sandbox::backend::BackendError;
use vestal_sandbox::{Engine, Error, FilesOnRemoval, Progress, ProgressSink, TaskName};

use crate::support::{EngineApi, EngineFixture, encode, given, marker, out};

/// Takes a name away from all images when a case is over.
struct Untag {
    api: EngineApi,
    name: String,
}

impl Drop for Untag {
    fn drop(&mut self) {
        let untag = |name: &str| {
            self.api.try_ask("DELETE", &format!("/images/{}", encode(name)), None);
        };
        untag(&self.name);
        // An image that lost its tag may still be known by where it came from.
        let (repository, _) = self.name.rsplit_once(':').unwrap();
        let images = self.api.get("/images/json");
        let digests = images
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|image| image["RepoDigests"].as_array().cloned().unwrap_or_default());
        for digest in digests {
            let digest = digest.as_str().unwrap();
            if digest.split('@').next() == Some(repository) {
                untag(digest);
            }
        }
    }
}

fn image_id(api: &EngineApi, name: &str) -> String {
    api.get(&format!("/images/{}/json", encode(name)))["Id"].as_str().unwrap().to_owned()
}

pub(crate) async fn an_image_that_cannot_be_had_is_an_error_and_leaves_nothing(
    fixture: EngineFixture,
) {
    let registry = given("VESTAL_TEST_REGISTRY");
    // One that the registry does not have, and one without a registry.
    for name in [format!("{registry}/vestal-test/none-{}:1", marker()), "127.0.0.1:9/x:1".into()] {
        let engine = fixture.engine_with(&[&format!("terminal.docker_image={name}")]);
        let error = engine.sandbox(&TaskName::default_task()).await.unwrap_err();
        let Error::Backend { source, .. } = &error else { panic!("{error:?}") };
        let BackendError::NoImage { image, reason, advice } = source else { panic!("{error:?}") };
        assert_eq!(*image, name);
        assert!(!reason.is_empty() && !advice.is_empty(), "{error:?}");
        assert_eq!(fixture.containers(), Vec::<Value>::new());
        // It is not a sandbox, so nothing is removed either.
        let removed = engine.remove(&TaskName::default_task(), FilesOnRemoval::Remove).await;
        assert!(matches!(removed, Ok(_) | Err(Error::NoSandbox { .. })), "{removed:?}");
    }
    fixture.finish().await;
}

pub(crate) async fn an_image_is_pulled_with_progress_and_its_id_recorded(fixture: EngineFixture) {
    let name = format!("{}/vestal-test/pulled:latest", given("VESTAL_TEST_REGISTRY"));
    let guard = Untag { api: fixture.api.clone(), name: name.clone() };
    let fixture = fixture.set(&format!("terminal.docker_image={name}"));
    let reported = Arc::new(Mutex::new(Vec::new()));
    let listening = Arc::clone(&reported);
    let sink = ProgressSink::new(move |progress| listening.lock().unwrap().push(progress));
    let engine: Engine = fixture.engine_reporting(&[], sink);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(out(&sandbox, "echo ok").await, "ok\n");
    let reported = reported.lock().unwrap().clone();
    let pulled = reported.iter().position(|step| *step == Progress::Pulled { image: name.clone() });
    let pulled = pulled.unwrap_or_else(|| panic!("{reported:?}"));
    let pulling =
        |step: &Progress| matches!(step, Progress::Pulling { image, .. } if *image == name);
    assert!(reported[..pulled].iter().any(pulling), "{reported:?}");
    let started = |step: &Progress| matches!(step, Progress::Starting { .. });
    assert!(reported[pulled..].iter().any(started), "{reported:?}");

    let summary = engine.list().await.unwrap().remove(0);
    let id = image_id(&fixture.api, &name);
    assert_eq!(summary.image.as_deref(), Some(&*name));
    assert!(same(summary.description.image_id.as_deref().unwrap(), &id));

    // The name goes to another image; the sandbox is what it was.
    let (repository, tag) = name.rsplit_once(':').unwrap();
    let repository = encode(repository);
    fixture.api.post(&format!("/images/vestal-test%2Fbase:latest/tag?repo={repository}&tag={tag}"));
    assert_ne!(image_id(&fixture.api, &name), id);
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    let sandbox = fixture.sandbox().await;
    assert_eq!(sandbox.generation().await, 1);
    assert_eq!(out(&sandbox, "ls /bin/bash || echo none").await, "none\n");
    let summary = fixture.engine().list().await.unwrap().remove(0);
    assert!(same(summary.description.image_id.as_deref().unwrap(), &id));
    // A new one is made of what has the name now.
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Keep).await.unwrap();
    assert_eq!(fixture.out("ls /bin/bash").await, "/bin/bash\n");
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    drop(guard);
    fixture.finish().await;
}

/// Returns whether two ids are of one image; some engines name the kind of
/// hash.
fn same(one: &str, other: &str) -> bool {
    one.trim_start_matches("sha256:") == other.trim_start_matches("sha256:")
}
