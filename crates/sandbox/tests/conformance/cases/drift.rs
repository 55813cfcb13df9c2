//! Settings that changed since the instance was made.

use vestal_sandbox::{Command, Engine, Error, Notice, TaskName};

use crate::support::BackendFixture;

const CHANGED: &str = "terminal.jobs_kept=7";

/// Returns the settings that notices name as changed.
pub(super) fn drifted(notices: &[Notice]) -> Vec<String> {
    notices
        .iter()
        .filter_map(|notice| match notice {
            Notice::Drift(drift) => Some(drift.iter().map(|drift| drift.key.clone())),
            _ => None,
        })
        .flatten()
        .collect()
}

pub(crate) async fn changed_settings_are_named_and_the_sandbox_goes_on(fixture: &BackendFixture) {
    let first = fixture.sandbox().await;
    let changed = fixture.engine_with(&[CHANGED]);
    let sandbox = changed.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(sandbox.instance().await, first.instance().await);
    assert_eq!(drifted(sandbox.notices()), ["terminal.jobs_kept"]);
    assert_eq!(changed.list().await.unwrap()[0].drift.len(), 1);
    assert_eq!(drifted(fixture.sandbox().await.notices()), Vec::<String>::new());
}

pub(crate) async fn changed_settings_are_applied_to_an_idle_sandbox_on_request(
    fixture: &BackendFixture,
) {
    fixture.run("kept=1").await;
    let guests = fixture.guests();
    let engine = fixture.engine_with(&[CHANGED, "terminal.on_config_change=recreate"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_ne!(fixture.guests(), guests, "it was started anew");
    assert_eq!(drifted(sandbox.notices()), Vec::<String>::new());
    let output = sandbox.run(Command::shell("echo $kept").session("main")).await.unwrap();
    assert_eq!(output.stdout.bytes(), b"1\n");
    let again = fixture.engine_with(&[CHANGED]).sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(drifted(again.notices()), Vec::<String>::new());
}

pub(crate) async fn changed_settings_are_not_applied_under_a_running_job(fixture: &BackendFixture) {
    let first = fixture.sandbox().await;
    let job = first.spawn(Command::shell("sleep 1000")).await.unwrap();
    let guests = fixture.guests();
    let engine = fixture.engine_with(&[CHANGED, "terminal.on_config_change=recreate"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(fixture.guests(), guests);
    assert_eq!(drifted(sandbox.notices()), ["terminal.jobs_kept"]);
    sandbox.kill(&job.id).await.unwrap();
}

pub(crate) async fn kept_settings_are_not_mentioned(fixture: &BackendFixture) {
    let first = fixture.sandbox().await;
    let engine = fixture.engine_with(&[CHANGED, "terminal.on_config_change=keep"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(sandbox.instance().await, first.instance().await);
    assert_eq!(sandbox.notices(), []);
}

pub(crate) async fn another_backend_is_refused_with_both_names(fixture: &BackendFixture) {
    fixture.run("true").await;
    // As if the sandbox had been made on a backend of another version.
    let path = fixture.sandbox_dir("default").join("sandbox.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let recorded = format!(r#""backend": "{}""#, fixture.backend());
    let elsewhere = text.replace(&recorded, r#""backend": "elsewhere""#);
    std::fs::write(&path, elsewhere).unwrap();
    let error = Engine::sandbox(&fixture.engine(), &TaskName::default_task()).await.unwrap_err();
    assert!(matches!(error, Error::BackendChanged { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("elsewhere") && message.contains(fixture.backend()), "{message}");
    std::fs::write(&path, text).unwrap();
}
