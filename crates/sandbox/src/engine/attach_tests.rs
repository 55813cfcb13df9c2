use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use vestal_config::{ConfigError, Settings};

use super::*;
use crate::backend::{
    Availability, ByteStream, Declaration, FoundInstance, InstanceFilter, InstanceRequest,
    StartedInstance,
};
use crate::spec::Spec;

/// A backend on another machine, which refuses every connection to a guest.
#[derive(Debug, Default)]
struct Refusing {
    attempts: AtomicUsize,
}

#[async_trait]
impl Backend for Refusing {
    fn declaration(&self) -> &'static Declaration {
        static REFUSING: Declaration = Declaration { name: "refusing", ..Declaration::REMOTE };
        &REFUSING
    }
    async fn probe(&self) -> Availability {
        Availability::Works { notes: Vec::new() }
    }
    fn spec(&self, _: &Settings, _: &Overrides) -> Result<Spec, ConfigError> {
        Ok(Spec::default())
    }
    async fn create(&self, _: InstanceRequest) -> Result<StartedInstance, BackendError> {
        unreachable!("nothing is made")
    }
    async fn start(&self, _: InstanceRequest) -> Result<StartedInstance, BackendError> {
        unreachable!("nothing is started")
    }
    async fn state(&self, _: &Instance) -> Result<InstanceState, BackendError> {
        Ok(InstanceState::Running)
    }
    async fn connect(&self, _: &Instance) -> Result<Box<dyn ByteStream>, BackendError> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let (address, reason) = ("there".to_owned(), "connection refused".to_owned());
        Err(BackendError::Unreachable { address, reason, advice: "try again".to_owned() })
    }
    async fn end(&self, _: &Instance, _: Duration) -> Result<(), BackendError> {
        unreachable!("nothing is ended")
    }
    async fn remove(&self, _: &Instance) -> Result<(), BackendError> {
        unreachable!("nothing is removed")
    }
    async fn find(&self, _: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        Ok(Vec::new())
    }
}

fn instance() -> Instance {
    Instance { id: "i".to_owned(), dir: "/nonexistent".into(), locator: serde_json::Value::Null }
}

#[tokio::test]
async fn a_refused_connection_is_tried_again_after_growing_pauses() {
    let backend = Refusing::default();
    let timeout = Duration::from_millis(400);
    let error = greet_within(&backend, &instance(), HostRole::User, timeout).await.unwrap_err();
    assert!(error.leaves_guest_unknown(&backend, &instance()), "{error:?}");
    // After 0, 20, 60, 140 and 300 ms; fewer where the machine is slow.
    let attempts = backend.attempts.load(Ordering::Relaxed);
    assert!((2..=5).contains(&attempts), "{attempts}");
}

#[test]
fn a_guest_behind_a_cut_connection_is_not_taken_for_dead() {
    let backend = Refusing::default();
    let cut = || GreetError::Connect(ConnectError::Vanished);
    let error = cut().into_error("web", &backend, &instance());
    assert_eq!(
        error.to_string(),
        "the sandbox of task \"web\" on backend refusing cannot be reached and may still be \
         running: the guest closed the connection instead of answering"
    );
    // One that nobody listens for is gone, and one that is silent is stuck.
    let gone = GreetError::Backend(BackendError::NotListening { id: "i".to_owned() });
    let refused = GreetError::Connect(ConnectError::Io(ErrorKind::ConnectionRefused.into()));
    let stuck = GreetError::Connect(ConnectError::Timeout(GREETING_WITHIN));
    for error in [gone, refused, stuck] {
        assert!(!error.leaves_guest_unknown(&backend, &instance()), "{error:?}");
    }
}
