//! Attach rather than create, and when not to.

use std::time::Duration;

use serde_json::{Value, json};
use vestal_sandbox::backend::BackendError;
use vestal_sandbox::client::Connection;
use vestal_sandbox::{
    Cleanup, Command, Error, FilesOnRemoval, Notice, Rebuild, Sandbox, StateBefore, SummaryState,
    TaskName, WhileBusy, job,
};
use vestal_wire::HostRole;

use crate::support::{EngineFixture, Fate, Request, marker, out, run, until};

const OWNED: &str = "terminal.persist_across_processes=false";

fn labels(container: &Value) -> impl Fn(&str) -> String + use<> {
    let labels = container["Config"]["Labels"].clone();
    move |name| labels[name].as_str().unwrap_or_default().to_owned()
}

pub(crate) async fn labels_say_whose_a_container_is(fixture: EngineFixture) {
    let tasks =
        [("team/app:v1 🦀", "team_app_v1__".to_owned()), (&*"x".repeat(100), "x".repeat(63))];
    for (task, expected) in tasks {
        let engine = fixture.engine();
        let task: TaskName = task.parse().unwrap();
        let sandbox = engine.sandbox(&task).await.unwrap();
        let container = fixture.container();
        let label = labels(&container);
        assert_eq!(label("vestal-agent"), "1");
        assert_eq!(label("vestal-task-id"), expected);
        assert_eq!(label("vestal-profile"), "default");
        assert_eq!(label("vestal-key"), engine.key(&task).hash());
        assert_eq!(label("vestal-persist"), "1");
        assert_eq!(label("vestal-generation"), "1");
        assert_eq!(label("vestal-owner"), "");
        assert_eq!(label("vestal-image"), "vestal-test/base:latest");
        assert_eq!(label("vestal-instance"), sandbox.instance().await);
        assert!(!label("vestal-spec").is_empty());
        engine.remove(&task, FilesOnRemoval::Remove).await.unwrap();
    }
    // One that ends with its process says which that is.
    let engine = fixture.engine_with(&[OWNED]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    let label = labels(&fixture.container());
    assert_eq!(label("vestal-persist"), "0");
    let owner: Value = serde_json::from_str(&label("vestal-owner")).unwrap();
    assert_eq!(owner["process"]["pid"], std::process::id());
    for part in ["host", "pid_namespace"] {
        assert!(owner[part].as_str().is_some_and(|text| !text.is_empty()), "{owner}");
    }
    drop(sandbox);
    assert!(engine.close(Duration::from_mins(1)).await);
    fixture.finish().await;
}

pub(crate) async fn a_profile_is_on_the_label_and_keeps_its_sandboxes_apart(
    fixture: EngineFixture,
) {
    fixture.out("echo default > /workspace/whose").await;
    let work = fixture.engine_of("work");
    let sandbox = work.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(out(&sandbox, "ls /workspace").await, "");
    let mut labels: Vec<String> = fixture
        .containers()
        .iter()
        .map(|listed| listed["Labels"]["vestal-profile"].as_str().unwrap().to_owned())
        .collect();
    labels.sort();
    assert_eq!(labels, ["default", "work"]);
    // Neither sees, nor reaps, what is the other's.
    assert_eq!(fixture.engine().list().await.unwrap().len(), 1);
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    assert_eq!(work.prune(false).await.unwrap(), []);
    work.remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    assert_eq!(fixture.out("cat whose").await, "default\n");
    fixture.finish().await;
}

pub(crate) async fn attaching_and_using_asks_the_engine_nothing(fixture: EngineFixture) {
    // The sweep asks, in the background.
    let (fixture, proxy) = fixture.set("terminal.orphan_reaper=false").proxied();
    fixture.out("x=1").await;
    proxy.take();
    let sandbox = fixture.sandbox().await;
    assert_eq!(sandbox.state_before(), StateBefore::Running);
    assert_eq!(out(&sandbox, "echo $x").await, "1\n");
    let files = sandbox.files(None).await.unwrap();
    assert!(files.read("/etc/passwd", 10_000).await.is_ok());
    let job = sandbox.spawn(Command::shell("exit 3")).await.unwrap();
    sandbox.wait(&job.id, None).await.unwrap();
    fixture.worker(&["run", "default", "true"]).done().await;
    assert_eq!(proxy.take(), []);
    fixture.finish().await;
}

pub(crate) async fn a_running_container_is_found_by_its_label_when_the_record_is_lost(
    fixture: EngineFixture,
) {
    let (fixture, proxy) = fixture.proxied();
    fixture.out("x=1").await;
    let container = fixture.container_id();
    std::fs::remove_file(fixture.sandbox_dir("default").join("sandbox.json")).unwrap();
    proxy.take();
    assert_eq!(fixture.out("echo $x").await, "1\n");
    assert_eq!(proxy.count(Request::creates), 0);
    assert_eq!(proxy.count(Request::starts), 0);
    assert_eq!(fixture.container_id(), container);
    fixture.finish().await;
}

pub(crate) async fn a_stopped_container_is_started_and_not_made(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    fixture.out("x=1").await;
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    proxy.take();
    assert_eq!(fixture.out("echo $x").await, "1\n");
    assert_eq!(proxy.count(|request| request.is("POST", "/containers/create", "")), 0);
    assert_eq!(proxy.count(Request::starts), 1);
    fixture.finish().await;
}

/// Makes the next request of a kind fail.
fn fail_once(proxy: &crate::support::Proxy, wanted: fn(&Request) -> bool) {
    answer_once(proxy, wanted, "something broke");
}

/// Makes the next request of a kind fail with these words of the engine's.
fn answer_once(proxy: &crate::support::Proxy, wanted: fn(&Request) -> bool, words: &str) {
    let mut answer = Some(Fate::Answer(500, serde_json::json!({ "message": words }).to_string()));
    proxy.rule(
        move |request| {
            if wanted(request) { answer.take().unwrap_or(Fate::Pass) } else { Fate::Pass }
        },
    );
}

fn recreated(sandbox: &Sandbox) -> bool {
    sandbox.notices().iter().any(|notice| matches!(notice, Notice::Recreated { .. }))
}

pub(crate) async fn only_a_container_that_is_lost_is_set_aside_for_a_fresh_one(
    fixture: EngineFixture,
) {
    let (fixture, proxy) = fixture.proxied();
    fixture.out("echo 1 > ~/kept; echo 2 > kept; echo 3 > /usr/own").await;
    let (container, name) = (fixture.container_id(), fixture.names().remove(0));
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    // What passes leaves it as it is.
    for words in ["no space left on device", "device or resource busy"] {
        answer_once(&proxy, Request::starts, words);
        let error = fixture.engine().sandbox(&TaskName::default_task()).await.unwrap_err();
        assert!(matches!(error, Error::StartFailed { .. }), "{error:?}");
        assert_eq!(fixture.names(), [&*name]);
    }
    assert_eq!(fixture.out("cat /usr/own").await, "3\n");
    assert_eq!(fixture.container_id(), container);
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    answer_once(&proxy, Request::starts, "layer does not exist");
    let sandbox = fixture.sandbox().await;
    assert!(recreated(&sandbox), "{:?}", sandbox.notices());
    assert_eq!(out(&sandbox, "cat ~/kept kept; ls /usr/own || true").await, "1\n2\n");
    assert_eq!(fixture.api.inspect(&aside(&fixture, &name)).unwrap()["Id"], container);
    fixture.finish().await;
}

pub(crate) async fn a_container_that_cannot_be_looked_at_is_kept(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    fixture.out("echo 2 > kept; echo 3 > /usr/own").await;
    let (container, name) = (fixture.container_id(), fixture.names().remove(0));
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    // What passes at once is not even noticed.
    fail_once(&proxy, Request::inspects);
    let engine = fixture.engine_with(&["terminal.orphan_reaper=false"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(out(&sandbox, "cat kept /usr/own").await, "2\n3\n");
    assert_eq!((fixture.container_id(), fixture.names()), (container.clone(), vec![name.clone()]));
    drop(sandbox);
    engine.stop(&TaskName::default_task()).await.unwrap();
    // What does not is an error, and rebuilding it a person's word.
    let broken = serde_json::json!({ "message": "something broke" }).to_string();
    proxy.rule(
        move |request| {
            if request.inspects() { Fate::Answer(500, broken.clone()) } else { Fate::Pass }
        },
    );
    let engine = fixture.engine_with(&["terminal.orphan_reaper=false"]);
    let error = engine.sandbox(&TaskName::default_task()).await.unwrap_err();
    assert!(error.to_string().contains("something broke"), "{error}");
    assert_eq!(fixture.names(), [&*name]);
    proxy.rule(move |request| {
        let is_old = request.inspects() && request.path.contains(&container);
        if is_old { Fate::failure() } else { Fate::Pass }
    });
    engine
        .rebuild(&TaskName::default_task(), &Rebuild::default(), WhileBusy::Refuse)
        .await
        .unwrap();
    proxy.pass();
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(out(&sandbox, "cat kept; ls /usr/own || true").await, "2\n");
    aside(&fixture, &name);
    fixture.finish().await;
}

/// Returns the name of the container that was set aside for the one that now
/// has the name.
fn aside(fixture: &EngineFixture, name: &str) -> String {
    let mut names = fixture.names();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[0], name);
    assert!(names[1].starts_with(&format!("{name}-aside-")), "{names:?}");
    names.remove(1)
}

/// Leaves two running containers of one sandbox, as they can be when its
/// directory was lost and found again: the recorded one, and another.
async fn twins(fixture: &EngineFixture) -> (String, String) {
    let instance = fixture.sandbox().await.instance().await;
    let first = fixture.container();
    let other = marker() + "abcdef";
    let instances = fixture.sandbox_dir("default").join("instances");
    let (from, to) = (instances.join(&instance), instances.join(&other));
    for dir in ["", "boot", "io", "state"] {
        std::fs::create_dir(to.join(dir)).unwrap();
    }
    for file in ["instance.json", "boot/guest", "boot/settings"] {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
    // Ids are equally long, so the other guest's settings are read as well.
    let settings = std::fs::read(to.join("boot/settings")).unwrap();
    let at = settings.windows(16).position(|part| part == instance.as_bytes()).unwrap();
    let settings = [&settings[..at], other.as_bytes(), &settings[at + 16..]].concat();
    std::fs::write(to.join("boot/settings"), settings).unwrap();
    let mut labels = first["Config"]["Labels"].clone();
    labels["vestal-instance"] = other.clone().into();
    let mount = |name: &str| json!({ "Type": "bind", "Source": to.join(name), "Target": format!("/.vestal/{name}") });
    let mounts = ["boot", "io", "state"].map(mount);
    let body = json!({
        "Image": first["Image"], "Entrypoint": ["/.vestal/boot/guest"], "User": "0:0",
        "Cmd": ["serve", "--settings", "/.vestal/boot/settings"], "Labels": labels,
        "WorkingDir": "/workspace",
        "HostConfig": { "NetworkMode": "none", "Mounts": mounts },
    });
    // As one that was moved aside and started again by somebody.
    let own = first["Name"].as_str().unwrap().trim_start_matches('/');
    let name = format!("{own}-aside-0a1b2c3d");
    let made = fixture.api.ask("POST", &format!("/containers/create?name={name}"), Some(&body));
    assert_eq!(made.status, 201, "{}", made.body);
    fixture.api.post(&format!("/containers/{name}/start"));
    until("its guest listens", || async { to.join("io/guest.sock").exists() }).await;
    (first["Id"].as_str().unwrap().to_owned(), made.body["Id"].as_str().unwrap().to_owned())
}

fn is_running(fixture: &EngineFixture, container: &str) -> bool {
    fixture.api.inspect(container).unwrap()["State"]["Running"] == true
}

pub(crate) async fn of_several_containers_the_running_one_is_used(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    let (recorded, other) = twins(&fixture).await;
    fixture.api.post(&format!("/containers/{recorded}/stop"));
    proxy.take();
    assert_eq!(fixture.out("hostname").await.trim(), &other[..12]);
    assert_eq!(proxy.count(Request::starts), 0);
    assert!(!is_running(&fixture, &recorded));
    // And goes on being used when both run.
    fixture.api.post(&format!("/containers/{recorded}/start"));
    assert_eq!(fixture.out("hostname").await.trim(), &other[..12]);
    fixture.finish().await;
}

pub(crate) async fn an_idle_duplicate_is_stopped_and_a_busy_one_is_reported(
    fixture: EngineFixture,
) {
    let (recorded, other) = twins(&fixture).await;
    let name = fixture.api.inspect(&other).unwrap()["Name"].as_str().unwrap().to_owned();
    let name = name.trim_start_matches('/').to_owned();
    let connection = connect(&fixture, &other).await;
    let job = job::spawn_background(&connection, Command::shell("sleep 1000")).await.unwrap();
    // The recorded one has to be looked at.
    fixture.api.post(&format!("/containers/{recorded}/pause"));
    let sandbox = fixture.sandbox().await;
    assert_eq!(out(&sandbox, "hostname").await.trim(), &recorded[..12]);
    assert_eq!(sandbox.notices(), [Notice::Duplicate { name }]);
    assert!(is_running(&fixture, &other), "it was left alone");
    job::kill(&connection, &job.id).await.unwrap();
    drop(connection);
    until("it idles and is stopped", || async {
        fixture.api.post(&format!("/containers/{recorded}/pause"));
        let sandbox = fixture.sandbox().await;
        assert_eq!(out(&sandbox, "hostname").await.trim(), &recorded[..12]);
        !is_running(&fixture, &other)
    })
    .await;
    assert!(is_running(&fixture, &recorded));
    fixture.finish().await;
}

/// A container that a person made of an image of the sandbox has its labels.
pub(crate) async fn a_container_of_an_image_committed_from_a_sandbox_is_never_touched(
    fixture: EngineFixture,
) {
    let task = TaskName::default_task();
    fixture.out("echo kept > kept").await;
    let own = fixture.container_id();
    let image = format!("vestal-test/committed-{}", marker());
    let committed = fixture.api.ask("POST", &format!("/commit?container={own}&repo={image}"), None);
    assert_eq!(committed.status, 201, "{}", committed.body);
    let body = json!({ "Image": image, "Entrypoint": ["sleep"], "Cmd": ["1000"] });
    let theirs = fixture.api.ask("POST", "/containers/create", Some(&body));
    assert_eq!(theirs.status, 201, "{}", theirs.body);
    let theirs = theirs.body["Id"].as_str().unwrap().to_owned();
    fixture.api.post(&format!("/containers/{theirs}/start"));
    let label = labels(&fixture.api.inspect(&theirs).unwrap());
    assert_eq!(label("vestal-key"), fixture.engine().key(&task).hash(), "it inherits the labels");

    // The sandbox's own container is gone, so that its labels are looked for.
    fixture.api.remove(&own);
    assert!(!fixture.engine().stop(&task).await.unwrap());
    assert!(is_running(&fixture, &theirs), "stop");
    assert_eq!(fixture.out("cat kept").await, "kept\n");
    assert!(is_running(&fixture, &theirs), "run");
    let removal = fixture.engine().remove(&task, FilesOnRemoval::Remove).await.unwrap();
    assert_eq!(removal.instances, 2, "the lost one and the one made anew");
    assert!(is_running(&fixture, &theirs), "rm");
    fixture.api.post(&format!("/containers/{theirs}/kill"));
    assert_eq!(fixture.engine().prune(false).await.unwrap(), []);
    assert!(fixture.api.inspect(&theirs).is_some(), "prune");

    fixture.api.remove(&theirs);
    fixture.api.ask("DELETE", &format!("/images/{image}"), None);
    fixture.finish().await;
}

/// Connects to the guest in a container that no record names.
async fn connect(fixture: &EngineFixture, container: &str) -> Connection {
    let instance = labels(&fixture.api.inspect(container).unwrap())("vestal-instance");
    let instances = fixture.sandbox_dir("default").join("instances");
    let socket = instances.join(&instance).join("io/guest.sock");
    let stream = tokio::net::UnixStream::connect(&socket).await.unwrap();
    Connection::open(stream, HostRole::User, Some(instance)).await.unwrap()
}

pub(crate) async fn without_persistence_nothing_is_looked_for(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    fixture.out("true").await;
    let shared = fixture.container_id();
    proxy.take();
    let engine = fixture.engine_with(&[OWNED, "terminal.orphan_reaper=false"]);
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(sandbox.state_before(), StateBefore::Absent);
    assert_eq!(proxy.count(Request::creates), 1);
    assert_eq!(proxy.count(Request::lists), 0, "{:?}", proxy.take());
    assert_eq!(fixture.containers().len(), 2);
    assert!(engine.close(Duration::from_mins(1)).await);
    assert_eq!(fixture.container_id(), shared, "what the process had is gone, and no more");
    fixture.finish().await;
}

pub(crate) async fn an_engine_that_is_not_there_is_an_error_and_changes_nothing(
    fixture: EngineFixture,
) {
    fixture.out("x=1; echo 1 > ~/kept").await;
    let container = fixture.container_id();
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    let missing = fixture.scratch("missing.sock");
    let deaf = fixture.scratch("deaf.sock");
    // A socket without anyone behind it.
    drop(std::os::unix::net::UnixListener::bind(&deaf).unwrap());
    for socket in [missing, deaf] {
        let engine = fixture.engine_at(&format!("unix://{}", socket.display()));
        let error = engine.sandbox(&TaskName::default_task()).await.unwrap_err();
        let Error::Backend { source, .. } = &error else { panic!("{error:?}") };
        assert!(matches!(source, BackendError::Unreachable { .. }), "{source:?}");
        assert!(source.to_string().contains(socket.to_str().unwrap()), "{source}");
        assert!(source.advice().is_some_and(|advice| !advice.is_empty()));
        // What can be said without an engine is said.
        let summary = engine.list().await.unwrap().remove(0);
        assert_eq!(summary.state, SummaryState::Unknown);
        assert!(summary.trouble.is_some());
        assert!(engine.remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.is_err());
        assert!(engine.stop(&TaskName::default_task()).await.is_err());
    }
    assert_eq!(fixture.out("echo $x; cat ~/kept").await, "1\n1\n");
    assert_eq!(fixture.container_id(), container);
    fixture.finish().await;
}

pub(crate) async fn cleanup_lets_go_and_force_removes(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    let engine = fixture.engine();
    let sandbox = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert!(sandbox.wait_for_cleanup(Duration::ZERO).await, "nothing to wait for");
    run(&sandbox, "x=1; echo 2 > kept").await;
    let container = fixture.container_id();
    proxy.take();
    sandbox.cleanup(Cleanup::Release);
    assert!(sandbox.wait_for_cleanup(Duration::from_mins(1)).await);
    assert_eq!(proxy.take(), [], "neither stopped nor removed");
    let again = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(out(&again, "echo $x").await, "1\n");
    assert_eq!(fixture.container_id(), container);

    proxy.rule(|request| {
        let removes = request.is("DELETE", "/containers/", "");
        if removes { Fate::Late(Duration::from_secs(2)) } else { Fate::Pass }
    });
    again.cleanup(Cleanup::ForceRemove);
    assert!(!again.wait_for_cleanup(Duration::from_millis(200)).await, "not so soon");
    assert!(again.wait_for_cleanup(Duration::from_mins(1)).await);
    assert_eq!(fixture.containers(), Vec::<Value>::new());
    assert_eq!(fixture.out("cat kept").await, "2\n", "its files stay");
    fixture.finish().await;
}

pub(crate) async fn a_sandbox_that_was_never_quite_made_leaves_nothing(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    let steps: [fn(&Request) -> bool; 4] = [
        |request| request.is("POST", "/containers/create", ""),
        Request::creates,
        Request::starts,
        |request| request.is("POST", "/containers/", "/start"),
    ];
    for (number, step) in steps.into_iter().enumerate() {
        let across = "terminal.persist_across_processes=true";
        let ways = [(Fate::failure(), across), (Fate::Cut, OWNED), (Fate::CutAnswer, across)];
        for (fate, set) in ways {
            let failing = fate.clone();
            proxy.rule(move |request| if step(request) { failing.clone() } else { Fate::Pass });
            let engine = fixture.engine_with(&[set]);
            let made = engine.sandbox(&TaskName::default_task()).await;
            assert!(made.is_err(), "{number} {fate:?} {set}");
            engine.close(Duration::from_mins(1)).await;
            let left = fixture.names();
            assert!(left.is_empty(), "{number} {fate:?} {set}: {left:?}");
        }
        proxy.pass();
        assert_eq!(fixture.out("echo ok").await, "ok\n");
        fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    }
    fixture.finish().await;
}
