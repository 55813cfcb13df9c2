use std::ffi::OsString;

use tempfile::TempDir;
use vestal_config::{Environment, Home, Override, Settings};

use super::*;
use crate::Engine;
use crate::backends::local::Local;
use crate::backends::native::Native;

fn settings(home: &TempDir, sets: &[&str]) -> Settings {
    let sets = sets.iter().map(|text| Override::parse(&crate::schema(), text).unwrap()).collect();
    Settings::load(
        &crate::schema(),
        Home::at(home.path()),
        Environment::from_pairs([("HOME", "/home/ada")]),
        sets,
    )
}

fn local(home: &TempDir) -> Arc<dyn Backend> {
    Arc::new(Local::new(home.path().join("run"), OsString::from("/bin")))
}

/// Returns the backend that `auto` chooses where only `local` works.
async fn chosen(sets: &[&str]) -> Result<&'static str, Error> {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::with_backends(settings(&home, sets), vec![local(&home)])?;
    let task = TaskName::default_task();
    let chosen = engine.inner.choose_backend(&task, &Overrides::default()).await?;
    Ok(chosen.name())
}

#[tokio::test]
async fn auto_never_ends_at_local_when_a_setting_isolates() {
    assert_eq!(chosen(&[]).await.unwrap(), "local");
    assert_eq!(chosen(&["terminal.container_memory=512"]).await.unwrap(), "local");
    let isolating = [
        "terminal.docker_network=false",
        "terminal.docker_volumes=[\"/a:/a:ro\"]",
        "terminal.native_rootfs=/srv/root",
    ];
    for set in isolating {
        let error = chosen(&[set]).await.unwrap_err();
        assert!(matches!(error, Error::NotIsolated { .. }), "{set}: {error}");
        let named = chosen(&[set, "terminal.backend=local"]).await;
        assert_eq!(named.unwrap(), "local", "a person's word for it counts");
    }
}

#[tokio::test]
async fn where_isolation_is_required_no_sandbox_is_without_it_whoever_chose_it() {
    for set in ["terminal.backend=auto", "terminal.backend=local"] {
        let home = tempfile::tempdir().unwrap();
        let engine = Engine::with_backends(settings(&home, &[set]), vec![local(&home)]).unwrap();
        let task = TaskName::default_task();
        let nothing = Overrides::default();
        assert_eq!(engine.inner.choose_backend(&task, &nothing).await.unwrap().name(), "local");
        assert!(engine.inner.check_backend(&task, &nothing, "local").is_ok());
        engine.require_confinement();
        let chosen = engine.inner.choose_backend(&task, &nothing).await.map(|it| it.name());
        assert!(matches!(chosen, Err(Error::NotConfined { .. })), "{set}: {chosen:?}");
        let made_before = engine.inner.check_backend(&task, &nothing, "local");
        assert!(matches!(made_before, Err(Error::NotConfined { .. })), "{set}: {made_before:?}");
    }
}

#[tokio::test]
async fn auto_makes_no_native_sandbox_of_a_setting_that_only_containers_have() {
    let sets = [
        "terminal.docker_extra_args=[\"--cap-drop=ALL\"]",
        "terminal.docker_run_as_host_user=true",
    ];
    for set in sets {
        let home = tempfile::tempdir().unwrap();
        let native = Native::new(Arc::new(settings(&home, &[set])));
        let backends: Vec<Arc<dyn Backend>> = vec![Arc::new(native), local(&home)];
        let engine = Engine::with_backends(settings(&home, &[set]), backends).unwrap();
        let task = TaskName::default_task();
        let error = engine.inner.choose_backend(&task, &Overrides::default()).await.unwrap_err();
        let Error::NotIsolated { reasons, .. } = error else { panic!("{set}: {error}") };
        let key = set.split_once('=').unwrap().0;
        assert_eq!(reasons, [format!("native: only containers have {key} (--set {key})")]);
    }
}

#[tokio::test]
async fn auto_takes_a_wrong_setting_for_an_error_and_not_for_a_missing_backend() {
    let wrong = [
        "terminal.native_rootfs=/there/is/no/such/root",
        "terminal.docker_volumes=[\"/a:/x\", \"/b:/x\"]",
        "terminal.docker_volumes=[\"/a:/\"]",
        "terminal.container_memory=lots",
    ];
    for set in wrong {
        let home = tempfile::tempdir().unwrap();
        let native = Native::new(Arc::new(settings(&home, &[set])));
        let backends: Vec<Arc<dyn Backend>> = vec![Arc::new(native), local(&home)];
        let engine = Engine::with_backends(settings(&home, &[set]), backends).unwrap();
        let task = TaskName::default_task();
        let error = engine.inner.choose_backend(&task, &Overrides::default()).await.unwrap_err();
        let key = set.split_once('=').unwrap().0;
        assert!(error.to_string().contains(key), "{set}: {error}");
        assert!(!matches!(error, Error::NotIsolated { .. }), "{set}: {error}");
    }
}

#[test]
fn a_sandbox_without_walls_is_not_used_once_a_setting_isolates() {
    let home = tempfile::tempdir().unwrap();
    let check = |sets: &[&str]| {
        let engine = Engine::with_backends(settings(&home, sets), vec![local(&home)]).unwrap();
        engine.inner.check_backend(&TaskName::default_task(), &Overrides::default(), "local")
    };
    check(&[]).unwrap();
    check(&["terminal.docker_network=false", "terminal.backend=local"]).unwrap();
    let error = check(&["terminal.docker_network=false"]).unwrap_err();
    assert!(matches!(error, Error::NotIsolated { .. }), "{error}");
}
