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
    let task = Task::default_task();
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
        let task = Task::default_task();
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
        let task = Task::default_task();
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
        engine.inner.check_backend(&Task::default_task(), &Overrides::default(), "local")
    };
    check(&[]).unwrap();
    check(&["terminal.docker_network=false", "terminal.backend=local"]).unwrap();
    let error = check(&["terminal.docker_network=false"]).unwrap_err();
    assert!(matches!(error, Error::NotIsolated { .. }), "{error}");
}

fn named(task: &str, dir: &str) -> String {
    at_directory(&task.parse().unwrap(), Path::new(dir)).unwrap().to_string()
}

#[test]
fn a_directory_that_is_reached_by_a_planted_link_is_not_mounted() {
    use std::os::unix::fs::symlink;
    use vestal_config::{Environment, Home, Settings};
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    for dir in ["home", "shared", "secret", "own"] {
        std::fs::create_dir(root.join(dir)).unwrap();
    }
    symlink(root.join("secret"), root.join("shared/project")).unwrap();
    symlink(root.join("secret"), root.join("own/project")).unwrap();
    crate::mounts::expose(&root.join("home"), &root.join("shared"));
    // The kernel knows the directory by its real name, the shell by the way.
    let mounted = |way: &str, dir: &str| {
        let way = root.join(way);
        let env =
            Environment::from_pairs([("HOME", "/nonexistent".as_ref()), ("PWD", way.as_os_str())]);
        let settings =
            Settings::load(&crate::schema(), Home::at(root.join("home")), env, Vec::new());
        let engine = Engine::with_backends(settings, Vec::new()).unwrap();
        let task = engine.task_with_mount(&"t".parse().unwrap(), &root.join(dir));
        task.map_err(|error| error.to_string())
    };
    let task: Task = format!("t@{}", root.join("secret").display()).parse().unwrap();
    let link = format!("{} is a link to", root.join("shared/project").display());
    for (way, dir) in [("shared/project", "secret"), ("own", "shared/project")] {
        let said = mounted(way, dir).unwrap_err();
        assert!(said.contains(&link), "{said}");
    }
    for (way, dir) in [("own/project", "secret"), ("shared", "secret"), ("own", "own/project")] {
        assert_eq!(mounted(way, dir), Ok(task.clone()), "{way} {dir}");
    }
}

#[test]
fn a_directory_is_part_of_its_task() {
    assert_eq!(named("default", "/work/a"), "default@/work/a");
    assert_ne!(named("default", "/work/a"), named("default", "/work/b"));
}

#[test]
fn a_long_directory_still_gives_a_task_of_its_own() {
    let (a, b) = (format!("/{}/x", "a".repeat(200)), format!("/{}/x", "b".repeat(200)));
    assert!(named("t", &a).len() <= 200);
    assert!(named("t", &a).contains(AT));
    assert_ne!(named("t", &a), named("t", &b));
    let wide = format!("/{}", "\u{1F525}".repeat(60));
    assert!(named(&"\u{1F525}".repeat(50), &wide).len() <= 200);
}
