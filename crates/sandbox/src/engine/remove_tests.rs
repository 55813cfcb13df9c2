use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use vestal_config::{ConfigError, Environment, Home, Settings};
use vestal_wire::{Fault, FaultCode};

use super::*;
use crate::backend::{
    Availability, BackendError, ByteStream, Declaration, FoundInstance, InstanceFilter,
    InstanceRequest, Locator, StartedInstance,
};
use crate::client::fake_guest::{FakeGuest, soon, welcome};
use crate::spec::Spec;
use crate::store::InstanceRecord;

/// A backend elsewhere, whose guests are played. It ends nothing.
#[derive(Debug)]
struct Elsewhere {
    state: InstanceState,
    /// Where connections to guests arrive; without it nobody listens.
    guests: Option<mpsc::UnboundedSender<UnixStream>>,
}

#[async_trait]
impl Backend for Elsewhere {
    fn declaration(&self) -> &'static Declaration {
        static ELSEWHERE: Declaration = Declaration { name: "elsewhere", ..Declaration::REMOTE };
        &ELSEWHERE
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
        Ok(self.state)
    }
    async fn connect(&self, instance: &Instance) -> Result<Box<dyn ByteStream>, BackendError> {
        let not_listening = || BackendError::NotListening { id: instance.id.clone() };
        let guests = self.guests.as_ref().ok_or_else(not_listening)?;
        let (host, guest) = UnixStream::pair().unwrap();
        guests.send(guest).unwrap();
        Ok(Box::new(host))
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

fn task() -> TaskName {
    "web".parse().unwrap()
}

/// Returns an engine with a sandbox of the task on this backend, and the instance.
fn engine(home: &TempDir, backend: Arc<Elsewhere>) -> (Engine, SandboxDir, Instance) {
    let env = Environment::from_pairs([("HOME", "/home/ada")]);
    let settings = Settings::load(&crate::schema(), Home::at(home.path()), env, Vec::new());
    let engine = Engine::with_backends(settings, vec![backend]).unwrap();
    let key = engine.key(&task());
    let dir = engine.inner.dir(&key);
    std::fs::create_dir_all(dir.instance_dir("instance")).unwrap();
    let mut record = SandboxRecord::new(&key, "elsewhere", Overrides::default(), Timestamp::now());
    record.instance = Some(InstanceRecord {
        id: "instance".to_owned(),
        created_at: Timestamp::now(),
        spec: BTreeMap::new(),
        retention_seconds: None,
        locator: Locator::Null,
    });
    dir.write_record(&record).unwrap();
    let instance = record.instance(&dir).unwrap();
    (engine, dir, instance)
}

/// Takes the next connection and the request to end on it.
async fn asked(guests: &mut mpsc::UnboundedReceiver<UnixStream>) -> (FakeGuest, u32) {
    let mut guest = FakeGuest { io: soon(guests.recv()).await.unwrap() };
    guest.greet(&welcome()).await;
    match guest.request().await {
        (channel, CallRequest::Shutdown { if_idle: true, .. }) => (guest, channel),
        other => panic!("not asked to end when idle: {other:?}"),
    }
}

#[tokio::test]
async fn a_busy_guest_whose_answer_is_lost_is_asked_again_and_left_alone() {
    let (send, mut guests) = mpsc::unbounded_channel();
    let home = tempfile::tempdir().unwrap();
    let backend = Arc::new(Elsewhere { state: InstanceState::Running, guests: Some(send) });
    let (engine, dir, instance) = engine(&home, Arc::clone(&backend));
    let task = task();
    let stop = stop_locked(&engine.inner, &task, &dir, &*backend, &instance, StopScope::Nothing);
    let guest = async {
        drop(asked(&mut guests).await);
        let (mut guest, channel) = asked(&mut guests).await;
        let message = "job j-1 runs".to_owned();
        let busy = Fault { code: FaultCode::Busy, message, errno: None };
        guest.reply(channel, &CallReply::Fault(busy)).await;
        guest
    };
    let (stopped, _guest) = soon(async { tokio::join!(stop, guest) }).await;
    let Err(Error::Busy { reason, .. }) = stopped else { panic!("{stopped:?}") };
    assert_eq!(reason, "job j-1 runs");
    assert_eq!(dir.read_intent().unwrap(), None);
}

#[tokio::test]
async fn a_guest_that_never_says_whether_it_is_idle_is_left_alone() {
    let (send, mut guests) = mpsc::unbounded_channel();
    let home = tempfile::tempdir().unwrap();
    let backend = Arc::new(Elsewhere { state: InstanceState::Running, guests: Some(send) });
    let (engine, dir, instance) = engine(&home, Arc::clone(&backend));
    let task = task();
    let stop = stop_locked(&engine.inner, &task, &dir, &*backend, &instance, StopScope::Nothing);
    let guest = async {
        for _ in 0..ASKED_TO_END {
            drop(asked(&mut guests).await);
        }
    };
    let (stopped, ()) = soon(async { tokio::join!(stop, guest) }).await;
    assert!(matches!(stopped, Err(Error::Unresponsive { .. })), "{stopped:?}");
}

#[tokio::test]
async fn a_guest_that_does_not_answer_is_not_called_stopped() {
    let home = tempfile::tempdir().unwrap();
    let observed = async |state| {
        let backend = Arc::new(Elsewhere { state, guests: None });
        let (engine, ..) = engine(&home, backend);
        engine.observe(&task()).await.unwrap_err()
    };
    let running = observed(InstanceState::Running).await;
    assert!(matches!(running, Error::Unresponsive { .. }), "{running:?}");
    let stopped = observed(InstanceState::Stopped { since: None }).await;
    assert!(matches!(stopped, Error::Stopped { .. }), "{stopped:?}");
}
