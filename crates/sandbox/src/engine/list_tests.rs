use std::sync::Arc;

use async_trait::async_trait;
use tempfile::TempDir;
use vestal_config::{ConfigError, Environment, Home, Override, Settings};

use super::super::open::ProbeTimeouts;
use super::*;
use crate::backend::{
    Availability, Backend, BackendError, ByteStream, Confinement, Declaration, Diagnostics,
    DoctorNote, FoundInstance, Instance, InstanceFilter, InstanceRequest, StartedInstance,
};
use crate::spec::Spec;
use crate::store::{InstanceRecord, SandboxDir};
use crate::{Engine, Key};

/// Enough for what never comes.
const SHORT: Duration = Duration::from_millis(20);

/// A backend that never answers, as one whose engine hangs.
#[derive(Debug)]
struct Hung;

#[async_trait]
impl Backend for Hung {
    fn declaration(&self) -> &'static Declaration {
        static HUNG: Declaration = Declaration {
            name: "hung",
            confinement: Confinement::Contained,
            ..Declaration::REMOTE
        };
        &HUNG
    }
    async fn probe(&self) -> Availability {
        std::future::pending().await
    }
    fn spec(&self, _: &Settings, _: &Overrides) -> Result<Spec, ConfigError> {
        Ok(Spec::default())
    }
    async fn create(&self, _: InstanceRequest) -> Result<StartedInstance, BackendError> {
        std::future::pending().await
    }
    async fn start(&self, _: InstanceRequest) -> Result<StartedInstance, BackendError> {
        std::future::pending().await
    }
    async fn state(&self, _: &Instance) -> Result<InstanceState, BackendError> {
        std::future::pending().await
    }
    async fn connect(&self, _: &Instance) -> Result<Box<dyn ByteStream>, BackendError> {
        std::future::pending().await
    }
    async fn end(&self, _: &Instance, _: Duration) -> Result<(), BackendError> {
        std::future::pending().await
    }
    async fn remove(&self, _: &Instance) -> Result<(), BackendError> {
        std::future::pending().await
    }
    async fn find(&self, _: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError> {
        std::future::pending().await
    }
    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        Some(self)
    }
}

#[async_trait]
impl Diagnostics for Hung {
    async fn report(&self, _: &std::collections::BTreeSet<String>) -> Vec<DoctorNote> {
        std::future::pending().await
    }
    fn memory_kills(&self, _: &Locator) -> Option<u64> {
        None
    }
}

/// Returns an engine with that many sandboxes on a backend that never answers.
fn hung(home: &TempDir, sandboxes: usize) -> Engine {
    let sets = vec![Override::parse(&crate::schema(), "terminal.backend=docker").unwrap()];
    let env = Environment::from_pairs([("HOME", "/home/ada")]);
    let settings = Settings::load(&crate::schema(), Home::at(home.path()), env, sets);
    let waiting = ProbeTimeouts { listing: SHORT, examining: SHORT };
    let engine = Engine::with_probe_timeouts(settings, vec![Arc::new(Hung)], waiting).unwrap();
    for number in 0..sandboxes {
        let key: Key = engine.key(&format!("task-{number}").parse().unwrap());
        let dir: SandboxDir = engine.inner.dir(&key);
        std::fs::create_dir_all(dir.instance_dir("i")).unwrap();
        let mut record = SandboxRecord::new(&key, "hung", Overrides::default(), Timestamp::now());
        record.instance = Some(InstanceRecord {
            id: "i".to_owned(),
            created_at: Timestamp::now(),
            spec: BTreeMap::new(),
            retention_seconds: None,
            locator: Locator::Null,
        });
        dir.write_record(&record).unwrap();
    }
    engine
}

#[tokio::test]
async fn sandboxes_that_do_not_answer_are_waited_for_together_and_reported() {
    let home = tempfile::tempdir().unwrap();
    let engine = hung(&home, 100);
    let listed = engine.list().await.unwrap();
    assert_eq!(listed.len(), 100);
    for summary in listed {
        assert_eq!(summary.state, SummaryState::Unknown);
        let trouble = summary.trouble.unwrap();
        assert_eq!(trouble, "backend hung: it has not answered in time");
    }
}

#[tokio::test]
async fn a_pruning_says_what_it_could_not_look_at() {
    let home = tempfile::tempdir().unwrap();
    let engine = hung(&home, 2);
    let pruned = engine.prune_with_report(false).await.unwrap();
    assert_eq!(pruned.reaped, []);
    let silent: Vec<&str> = pruned.unanswered.iter().map(|(what, _)| &**what).collect();
    assert_eq!(silent, ["task-0", "task-1", "backend hung"]);
}

#[tokio::test]
async fn a_backend_that_does_not_answer_is_reported_as_that() {
    let home = tempfile::tempdir().unwrap();
    let engine = hung(&home, 0);
    let (_, available) = engine.backends().await.remove(0);
    let Availability::Missing { reason, .. } = available else { panic!("{available:?}") };
    assert_eq!(reason, "it has not answered in time");
    let (_, remarks) = engine.report().await.remove(0);
    assert_eq!(remarks[0].text, "it has not answered in time");
}
