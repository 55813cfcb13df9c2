//! The orphan reaper, as an engine sees it.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use vestal_sandbox::{Engine, ReapReason, TaskName};

use crate::support::{EngineApi, EngineFixture, Fate, Proxy, Request};

const DAY: Duration = Duration::from_hours(24);

/// What the engine says of the time when a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Ago(Duration),
    Reported(&'static str),
}

/// Makes an engine say that the containers of these tasks ended then.
fn pretend(fixture: &EngineFixture, proxy: &Proxy, ends: Vec<(&'static str, End)>) {
    let api = fixture.api.clone();
    proxy.rule(move |request| aged(&api, request, &ends).unwrap_or(Fate::Pass));
}

fn aged(api: &EngineApi, request: &Request, ends: &[(&str, End)]) -> Option<Fate> {
    if !request.inspects() {
        return None;
    }
    let container = request.path.split('/').nth(2)?;
    let mut printed = api.inspect(container)?;
    let task = printed["Config"]["Labels"]["vestal-task-id"].as_str()?;
    let (_, end) = ends.iter().find(|(name, _)| *name == task)?;
    printed["State"]["FinishedAt"] = match end {
        // As engines write it, with nanoseconds.
        End::Ago(age) => {
            let time = jiff::Timestamp::now().checked_sub(*age).unwrap();
            format!("{time:.9}").into()
        }
        End::Reported(text) => (*text).into(),
    };
    Some(Fate::Answer(200, printed.to_string()))
}

/// Makes a stopped sandbox, and what its directory says of it as old as that.
async fn stopped(fixture: &EngineFixture, name: &str, age: Duration) {
    let task: TaskName = name.parse().unwrap();
    let engine = fixture.engine_with(&["terminal.orphan_reaper=false"]);
    engine.sandbox(&task).await.unwrap();
    engine.stop(&task).await.unwrap();
    let journal = std::fs::File::open(fixture.sandbox_dir(name).join("state/journal")).unwrap();
    journal.set_modified(SystemTime::now() - age).unwrap();
}

/// Takes the directory of a sandbox away, so that only labels show it.
fn lose(fixture: &EngineFixture, name: &str) {
    std::fs::remove_dir_all(fixture.sandbox_dir(name)).unwrap();
}

/// Returns the tasks that the containers of a fixture are for.
fn tasks(fixture: &EngineFixture) -> Vec<String> {
    let task = |listed: &Value| listed["Labels"]["vestal-task-id"].as_str().unwrap().to_owned();
    let mut tasks: Vec<String> = fixture.containers().iter().map(task).collect();
    tasks.sort();
    tasks
}

/// Returns the container of a task.
fn id_of(fixture: &EngineFixture, task: &str) -> String {
    let listed = fixture.containers();
    let listed = listed.iter().find(|listed| listed["Labels"]["vestal-task-id"] == task).unwrap();
    listed["Id"].as_str().unwrap().to_owned()
}

/// Uses a sandbox of another task and returns how much was swept then.
async fn sweep(engine: &Engine) -> usize {
    engine.sandbox(&"sweeper".parse().unwrap()).await.unwrap();
    engine.orphans_swept().await
}

pub(crate) async fn nothing_to_reap_is_nothing_removed(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    assert_eq!(sweep(&fixture.engine()).await, 0);
    // The container of the errand aside, which is gone when it is done.
    let removals = |request: &Request| {
        request.is("DELETE", "/containers/", "") && !request.path.contains("vestal-errand")
    };
    assert_eq!(proxy.count(removals), 0);
    fixture.finish().await;
}

pub(crate) async fn an_old_stopped_container_is_reaped_and_a_recent_one_is_not(
    fixture: EngineFixture,
) {
    let (fixture, proxy) = fixture.proxied();
    stopped(&fixture, "old", 8 * DAY).await;
    stopped(&fixture, "recent", 8 * DAY).await;
    stopped(&fixture, "used", 6 * DAY).await;
    let ends = vec![
        ("old", End::Ago(8 * DAY)),
        ("recent", End::Ago(6 * DAY)),
        ("used", End::Ago(8 * DAY)),
    ];
    pretend(&fixture, &proxy, ends);
    let engine = fixture.engine();
    assert_eq!(sweep(&engine).await, 1);
    assert_eq!(tasks(&fixture), ["recent", "sweeper", "used"]);
    assert!(fixture.sandbox_dir("old").join("home").exists(), "its files stay");
    assert_eq!(sweep(&fixture.engine()).await, 0);
    proxy.pass();
    fixture.finish().await;
}

pub(crate) async fn a_container_of_a_lost_directory_is_reaped_when_it_is_old(
    fixture: EngineFixture,
) {
    let (fixture, proxy) = fixture.proxied();
    for name in ["old", "recent", "running"] {
        stopped(&fixture, name, Duration::ZERO).await;
    }
    fixture
        .engine_with(&["terminal.orphan_reaper=false"])
        .sandbox(&"running".parse().unwrap())
        .await
        .unwrap();
    for name in ["old", "recent", "running"] {
        lose(&fixture, name);
    }
    let ends = vec![
        ("old", End::Ago(8 * DAY)),
        ("recent", End::Ago(6 * DAY)),
        ("running", End::Ago(8 * DAY)),
    ];
    pretend(&fixture, &proxy, ends);
    let dry = fixture.engine().prune(true).await.unwrap();
    assert_eq!(dry.len(), 1, "{dry:?}");
    assert_eq!((&*dry[0].task, dry[0].reason), ("old", ReapReason::Expired));
    assert_eq!(tasks(&fixture), ["old", "recent", "running"]);
    assert_eq!(sweep(&fixture.engine()).await, 1);
    assert_eq!(tasks(&fixture), ["recent", "running", "sweeper"]);
    proxy.pass();
    // Nobody remembers them, so nobody but their label can.
    for listed in fixture.containers() {
        fixture.api.remove(listed["Id"].as_str().unwrap());
    }
    fixture.finish().await;
}

pub(crate) async fn an_unknown_end_reaps_nothing(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    let ends = [
        ("zero", "0001-01-01T00:00:00Z"),
        ("empty", ""),
        ("words", "yesterday"),
        ("ahead", "2999-01-01T00:00:00.123456789Z"),
    ];
    for (name, _) in ends {
        stopped(&fixture, name, 8 * DAY).await;
    }
    pretend(&fixture, &proxy, ends.map(|(name, text)| (name, End::Reported(text))).into());
    let engine = fixture.engine_with(&["terminal.retention_seconds=1s"]);
    assert_eq!(sweep(&engine).await, 0);
    assert_eq!(tasks(&fixture), ["ahead", "empty", "sweeper", "words", "zero"]);
    proxy.pass();
    fixture.finish().await;
}

pub(crate) async fn one_removal_that_fails_does_not_stop_the_others(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    for name in ["a", "b", "c"] {
        stopped(&fixture, name, 8 * DAY).await;
    }
    let b = id_of(&fixture, "b");
    let old = [("a", End::Ago(8 * DAY)), ("b", End::Ago(8 * DAY)), ("c", End::Ago(8 * DAY))];
    let api = fixture.api.clone();
    proxy.rule(move |request| {
        if request.is("DELETE", &format!("/containers/{b}"), "") {
            return Fate::failure();
        }
        aged(&api, request, &old).unwrap_or(Fate::Pass)
    });
    assert_eq!(sweep(&fixture.engine()).await, 2);
    assert_eq!(tasks(&fixture), ["b", "sweeper"]);
    proxy.pass();
    fixture.finish().await;
}

pub(crate) async fn an_engine_that_cannot_list_is_swept_of_nothing_and_used(
    fixture: EngineFixture,
) {
    let (fixture, proxy) = fixture.proxied();
    stopped(&fixture, "old", 8 * DAY).await;
    lose(&fixture, "old");
    let label =
        format!("vestal-home={}", fixture.engine().key(&TaskName::default_task()).home().as_str());
    proxy.rule(move |request| {
        // Only the sweep asks for all containers of the home.
        let sweeps = request.lists() && request.query.contains(&crate::support::encode(&label));
        if sweeps { Fate::failure() } else { Fate::Pass }
    });
    assert_eq!(sweep(&fixture.engine()).await, 0);
    assert_eq!(tasks(&fixture), ["old", "sweeper"]);
    proxy.pass();
    fixture.api.remove(&id_of(&fixture, "old"));
    fixture.finish().await;
}

/// Counts the questions of sweeps.
fn sweeps(fixture: &EngineFixture, proxy: &Proxy) -> usize {
    let home = fixture.engine().key(&TaskName::default_task()).home().as_str().to_owned();
    proxy.count(|request| request.lists() && request.query.contains(&home))
}

pub(crate) async fn a_disabled_reaper_asks_nothing(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    for setting in ["terminal.orphan_reaper=false", "terminal.docker_orphan_reaper=false"] {
        let engine = fixture.engine_with(&[setting]);
        assert_eq!(sweep(&engine).await, 0);
        assert_eq!(sweeps(&fixture, &proxy), 0, "{setting}");
    }
    assert_eq!(sweep(&fixture.engine()).await, 0);
    assert_eq!(sweeps(&fixture, &proxy), 1, "also where the sandbox runs already");
    fixture.engine().stop(&"sweeper".parse().unwrap()).await.unwrap();
    assert_eq!(sweep(&fixture.engine()).await, 0);
    assert_eq!(sweeps(&fixture, &proxy), 2);
    fixture.finish().await;
}

pub(crate) async fn parallel_creators_sweep_once(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    let engine = fixture.engine();
    let creators: Vec<_> = (0..4)
        .map(|number| {
            let engine = engine.clone();
            let task: TaskName = format!("task-{number}").parse().unwrap();
            tokio::spawn(async move { engine.sandbox(&task).await.unwrap() })
        })
        .collect();
    for creator in creators {
        creator.await.unwrap();
    }
    assert_eq!(engine.orphans_swept().await, 0);
    assert_eq!(sweeps(&fixture, &proxy), 1);
    fixture.finish().await;
}

pub(crate) async fn only_this_homes_containers_are_asked_for(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    sweep(&fixture.engine()).await;
    let label = |name: &str, value: &str| format!("{name}={value}");
    let home = fixture.engine().key(&TaskName::default_task()).home().as_str().to_owned();
    let key = fixture.engine().key(&"sweeper".parse().unwrap()).hash();
    let listed: Vec<Request> = proxy.take().into_iter().filter(Request::lists).collect();
    assert!(!listed.is_empty());
    for request in listed {
        let query = decode(&request.query);
        let filters = query.split('&').find_map(|part| part.strip_prefix("filters=")).unwrap();
        let filters: Value = serde_json::from_str(filters).unwrap();
        let labels = filters["label"].as_array().unwrap();
        assert!(labels.contains(&json!("vestal-agent=1")), "{filters}");
        let ours = [label("vestal-home", &home), label("vestal-key", &key)];
        let instance = |text: &str| text.starts_with("vestal-instance=");
        let narrow = |text: &Value| {
            let text = text.as_str().unwrap();
            ours.iter().any(|own| own == text) || instance(text)
        };
        assert!(labels.iter().any(narrow), "{filters}");
    }
    fixture.finish().await;
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            decoded.push(u8::from_str_radix(&text[at + 1..at + 3], 16).unwrap());
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(decoded).unwrap()
}
