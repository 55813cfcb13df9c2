//! Copies of sandboxes, as an engine has them: images.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use vestal_sandbox::backend::BackendError;
use vestal_sandbox::{
    Engine, Error, FilesOnRemoval, Notice, Progress, ProgressSink, Sandbox, SnapshotName, TaskName,
    WhileBusy,
};

use crate::support::{ClearOnDrop, EngineFixture, Fate, Hold, Request, out, until};

fn task(name: &str) -> TaskName {
    name.parse().unwrap()
}

fn name(name: &str) -> SnapshotName {
    name.parse().unwrap()
}

async fn snapshot(engine: &Engine, snapshot: &str) {
    let default = TaskName::default_task();
    engine.snapshot(&default, &name(snapshot), None, WhileBusy::Stop).await.unwrap();
}

async fn restore(engine: &Engine, snapshot: &str) {
    engine.restore(&TaskName::default_task(), &name(snapshot), WhileBusy::Stop).await.unwrap();
}

async fn fork(engine: &Engine, from: Option<&str>, to: &str) {
    let from = from.map(name);
    let default = TaskName::default_task();
    engine.fork(&default, from.as_ref(), &task(to), WhileBusy::Stop).await.unwrap();
}

async fn sandbox(fixture: &EngineFixture, name: &str) -> Sandbox {
    fixture.engine().sandbox(&task(name)).await.unwrap()
}

/// Returns what the engine says of the one image of this fixture.
fn image(fixture: &EngineFixture) -> Value {
    let images = fixture.images();
    assert_eq!(images.len(), 1, "{images:?}");
    fixture.api.get(&format!("/images/{}/json", images[0]))
}

/// Returns the layers of the image that the container of a task is made of.
fn layers(fixture: &EngineFixture, task: &str) -> usize {
    let label = format!("vestal-task-id={task}");
    let listed = fixture.containers();
    let container = listed.iter().find(|listed| listed["Labels"]["vestal-task-id"] == task);
    let image = container.unwrap_or_else(|| panic!("{label} is on none"))["ImageID"].clone();
    let image = fixture.api.get(&format!("/images/{}/json", image.as_str().unwrap()));
    image["RootFS"]["Layers"].as_array().unwrap().len()
}

pub(crate) async fn what_is_installed_is_there_after_a_restore_and_in_a_fork(
    fixture: EngineFixture,
) {
    let install = "printf '#!/bin/sh\\necho one' > /usr/bin/tool; chmod 4755 /usr/bin/tool; \
                   echo w1 > /workspace/w; echo h1 > ~/h; rm /bin/tac; ln -s tool /usr/bin/nick";
    fixture.out(install).await;
    snapshot(&fixture.engine(), "one").await;
    assert_eq!(fixture.images().len(), 1);
    let change = "printf '#!/bin/sh\\necho two' > /usr/bin/tool; chmod 4755 /usr/bin/tool; \
                  echo w2 > w; echo h2 > ~/h";
    assert_eq!(fixture.out(&format!("cd /workspace; {change}; tool")).await, "two\n");

    fork(&fixture.engine(), None, "now").await;
    fork(&fixture.engine(), Some("one"), "then").await;
    let look = "nick; cat /workspace/w ~/h; ls /bin/tac 2>/dev/null; stat -c %a /usr/bin/tool";
    assert_eq!(out(&sandbox(&fixture, "now").await, look).await, "two\nw2\nh2\n4755\n");
    assert_eq!(out(&sandbox(&fixture, "then").await, look).await, "one\nw1\nh1\n4755\n");
    assert_eq!(fixture.out(look).await, "two\nw2\nh2\n4755\n", "the original is as it was");

    restore(&fixture.engine(), "one").await;
    assert_eq!(fixture.out(look).await, "one\nw1\nh1\n4755\n");
    // Each is on its own from then on.
    fixture.out("echo three > /usr/bin/tool").await;
    assert_eq!(out(&sandbox(&fixture, "then").await, "tool").await, "one\n");
    restore(&fixture.engine(), "one").await;
    assert_eq!(fixture.out(look).await, "one\nw1\nh1\n4755\n", "a snapshot can be used again");
    fixture.finish().await;
}

pub(crate) async fn an_image_of_a_snapshot_says_nothing_of_us(fixture: EngineFixture) {
    let fixture = fixture.image("nonroot").set(r#"terminal.docker_env={"SECRET": "hidden-value"}"#);
    fixture.out("echo $SECRET > /dev/null; echo 1 > /workspace/secret-file").await;
    snapshot(&fixture.engine(), "one").await;
    let image = image(&fixture);
    for printed in ["Env", "Labels", "Cmd", "Entrypoint", "User", "WorkingDir", "Volumes"] {
        let value = &image["Config"][printed];
        let nothing = value.is_null()
            || value == ""
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(serde_json::Map::is_empty);
        assert!(nothing, "{printed}: {value}");
    }
    let text = image.to_string();
    for word in ["hidden-value", "vestal-agent", "vestal-key", "guest", "/workspace"] {
        assert!(!text.contains(word), "{word}: {text}");
    }

    // A stranger's container of it is nobody's business, and has no file of ours.
    let mark = "vestal-test-stranger=1";
    let remove = ClearOnDrop { engine: fixture.api.clone(), label: mark.to_owned() };
    let command = "find / -xdev -name 'secret-file' -o -xdev -path '/.vestal/*/*'";
    let body = json!({
        "Image": fixture.images()[0], "Cmd": ["/bin/sh", "-c", command], "Env": ["PATH=/bin"],
        "Labels": { "vestal-test-stranger": "1" },
    });
    let made = fixture.api.ask("POST", "/containers/create", Some(&body));
    assert_eq!(made.status, 201, "{}", made.body);
    let stranger = made.body["Id"].as_str().unwrap().to_owned();
    assert!(!fixture.containers().iter().any(|listed| listed["Id"] == stranger.as_str()));
    assert!(
        fixture.api.containers_with("vestal-agent").iter().all(|c| c["Id"] != stranger.as_str())
    );
    fixture.api.post(&format!("/containers/{stranger}/start"));
    until("it has ended", || async {
        fixture.api.inspect(&stranger).unwrap()["State"]["Status"] == "exited"
    })
    .await;
    let printed = fixture.api.logs(&stranger);
    assert_eq!(printed, "", "what is found there");

    // While it is there the snapshot's image is in use, which is said and loses
    // nothing.
    let removing = fixture.engine().remove_snapshot(&TaskName::default_task(), &name("one")).await;
    let error = removing.unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
    assert_eq!(fixture.images().len(), 1);
    drop(remove);
    fixture.finish().await;
}

pub(crate) async fn a_copy_is_as_its_first_image_says(fixture: EngineFixture) {
    for (image, look, expected) in [
        (
            "nonroot",
            "id -un; echo $HOME $USER; cat ~/note.txt",
            "app\n/home/app app\na file of app\n",
        ),
        ("numeric", "id -u; echo $HOME", "1234\n/home/vestal\n"),
        (
            "s6",
            "tr '\\0' ' ' < /proc/1/cmdline | cut -d' ' -f1-2; echo $MARK",
            "/bin/sh /init\ninit\n",
        ),
        ("volume", "cat /data/seed; grep -c ' /data ' /proc/mounts", "from the image\n1\n"),
    ] {
        let fixture = fixture.beside().image(image);
        assert_eq!(fixture.out(look).await, expected, "{image}");
        snapshot(&fixture.engine(), "one").await;
        restore(&fixture.engine(), "one").await;
        assert_eq!(fixture.out(look).await, expected, "{image}");
        fork(&fixture.engine(), None, "other").await;
        assert_eq!(out(&sandbox(&fixture, "other").await, look).await, expected, "{image}");
        // A copy of a copy still knows.
        fixture.engine().remove_snapshot(&TaskName::default_task(), &name("one")).await.unwrap();
        let path = "echo $PATH";
        assert_eq!(fixture.out(path).await, out(&sandbox(&fixture, "other").await, path).await);
        fixture.finish().await;
    }
    fixture.finish().await;
}

pub(crate) async fn an_emptied_home_stays_empty_in_a_copy(fixture: EngineFixture) {
    let fixture = fixture.image("nonroot");
    fixture.out("rm -r ~/.image-marker ~/note.txt").await;
    fork(&fixture.engine(), None, "other").await;
    assert_eq!(out(&sandbox(&fixture, "other").await, "ls -A ~").await, "");
    fixture.finish().await;
}

pub(crate) async fn layers_do_not_pile_up(fixture: EngineFixture) {
    let mut most = 0;
    let mut first = None;
    for round in 0..12 {
        fixture.out(&format!("echo {round} >> /usr/rounds")).await;
        let count = layers(&fixture, "default");
        most = most.max(count);
        let original = *first.get_or_insert(count);
        assert!(count <= original + 8, "{count} layers in round {round}, {original} at first");
        snapshot(&fixture.engine(), &format!("s{round}")).await;
        restore(&fixture.engine(), &format!("s{round}")).await;
    }
    assert!(most > first.unwrap(), "nothing was copied layer by layer");
    assert_eq!(fixture.out("wc -l < /usr/rounds; whoami").await, "12\nroot\n");
    for round in 0..12 {
        let removed = name(&format!("s{round}"));
        fixture.engine().remove_snapshot(&TaskName::default_task(), &removed).await.unwrap();
    }
    // What the container is made of is all that is left.
    assert_eq!(fixture.images().len(), 1, "{:?}", fixture.images());
    assert_eq!(fixture.out("wc -l < /usr/rounds").await, "12\n");
    fixture.finish().await;
}

pub(crate) async fn an_engine_that_cannot_share_layers_copies_all(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    fixture.out("echo kept > /usr/kept").await;
    proxy.rule(
        |request| {
            if request.is("POST", "/images/load", "") { Fate::failure() } else { Fate::Pass }
        },
    );
    let reported = Arc::new(Mutex::new(Vec::new()));
    let reporting = Arc::clone(&reported);
    let progress = ProgressSink::new(move |step| reporting.lock().unwrap().push(step));
    snapshot(&fixture.engine_reporting(&[], progress), "one").await;
    proxy.pass();
    let layers = image(&fixture)["RootFS"]["Layers"].as_array().unwrap().len();
    assert_eq!(layers, 1);
    let most = reported.lock().unwrap().iter().fold(0, |most, step| match step {
        Progress::Copying { bytes, .. } => most.max(*bytes),
        _ => most,
    });
    assert!(most > 1 << 20, "{most}");
    restore(&fixture.engine(), "one").await;
    assert_eq!(
        fixture.out("cat /usr/kept; whoami; echo $PATH | grep -c bin").await,
        "kept\nroot\n1\n"
    );
    fixture.finish().await;
}

pub(crate) async fn a_snapshot_outlives_its_sandbox_and_goes_without_a_trace(
    fixture: EngineFixture,
) {
    fixture.out("echo kept > /usr/kept; echo 1 > /workspace/w").await;
    snapshot(&fixture.engine(), "one").await;
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Keep).await.unwrap();
    assert_eq!(fixture.images().len(), 1, "it is the snapshot's");
    fork(&fixture.engine(), Some("one"), "other").await;
    assert_eq!(out(&sandbox(&fixture, "other").await, "cat /usr/kept").await, "kept\n");
    let default = TaskName::default_task();
    fixture.engine().remove_snapshot(&default, &name("one")).await.unwrap();
    assert_eq!(fixture.images().len(), 1, "a container is made of it");
    assert_eq!(out(&sandbox(&fixture, "other").await, "cat /usr/kept").await, "kept\n");
    fixture.engine().remove(&task("other"), FilesOnRemoval::Remove).await.unwrap();
    assert_eq!(fixture.images(), Vec::<String>::new());
    fixture.finish().await;
}

pub(crate) async fn an_interrupted_copy_leaves_no_image(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    fixture.out("echo kept > /usr/kept").await;
    let here: [fn(&Request) -> bool; 2] = [
        |request| request.is("POST", "/commit", ""),
        |request| request.is("POST", "/images/load", ""),
    ];
    for is_here in here {
        for verb in ["snapshot", "fork"] {
            let hold = Hold::new();
            let held = hold.clone();
            proxy.rule(
                move |request| {
                    if is_here(request) { Fate::Await(held.clone()) } else { Fate::Pass }
                },
            );
            let engine = fixture.engine();
            let copying = tokio::spawn(async move {
                match verb {
                    "snapshot" => snapshot(&engine, "one").await,
                    _ => fork(&engine, None, "other").await,
                }
            });
            hold.reached().await;
            copying.abort();
            assert!(copying.await.unwrap_err().is_cancelled());
            hold.release();
            proxy.pass();
            until("no image is left", || async {
                // The next process finishes what was started.
                fixture.out("cat /usr/kept").await == "kept\n" && fixture.images().is_empty()
            })
            .await;
            assert_eq!(fixture.engine().snapshots(None).await.unwrap(), []);
            assert!(!fixture.sandbox_dir("other").exists());
        }
    }
    fixture.finish().await;
}

pub(crate) async fn an_image_that_a_dead_process_left_is_reaped_when_it_is_old(
    fixture: EngineFixture,
) {
    let (fixture, proxy) = fixture.proxied();
    fixture.out("true").await;
    snapshot(&fixture.engine(), "one").await;
    let repository = fixture.images()[0].split_once(':').unwrap().0.to_owned();
    for tag in ["s-0123", "i-4567", "s-89ab.draft", "mine"] {
        let query = format!("repo={repository}&tag={tag}");
        fixture.api.post(&format!("/images/vestal-test/busybox:latest/tag?{query}"));
    }
    assert_eq!(fixture.images().len(), 5);
    let reports = fixture.engine().report().await;
    let (_, remarks) = reports.iter().find(|(backend, _)| *backend == "docker").unwrap();
    let remarks: Vec<&str> =
        remarks.iter().filter(|remark| remark.topic == "images").map(|r| &*r.text).collect();
    assert_eq!(
        remarks,
        ["1 of snapshots and sandboxes of this home", "3 of this home that nothing uses"]
    );
    // Now they are young: who knows whether somebody is just making them.
    let api = fixture.api.clone();
    proxy.rule(move |request| {
        if !request.is("GET", "/images/json", "") {
            return Fate::Pass;
        }
        let mut listed = api.get(&format!("/images/json?{}", request.query));
        for image in listed.as_array_mut().unwrap() {
            image["Created"] = json!(jiff::Timestamp::now().as_second());
        }
        Fate::Answer(200, listed.to_string())
    });
    assert_eq!(fixture.engine().prune(false).await.unwrap(), []);
    proxy.pass();
    // The image that the names are of is as old as the test images are.
    let reaped = fixture.engine().prune(true).await.unwrap();
    assert_eq!(reaped.len(), 3, "{reaped:?}");
    assert_eq!(fixture.images().len(), 5, "that was only a question");
    assert_eq!(fixture.engine().prune(false).await.unwrap().len(), 3);
    let mut left = fixture.images();
    left.sort();
    assert_eq!(left.len(), 2, "the snapshot's, and what somebody else has named: {left:?}");
    assert!(left.contains(&format!("{repository}:mine")), "{left:?}");
    fixture.api.ask("DELETE", &format!("/images/{repository}:mine"), None);
    restore(&fixture.engine(), "one").await;
    fixture.finish().await;
}

pub(crate) async fn a_copy_is_no_drift_and_settings_that_need_another_give_it_up(
    fixture: EngineFixture,
) {
    fixture.out("echo kept > /usr/kept; echo 1 > /workspace/w").await;
    snapshot(&fixture.engine(), "one").await;
    restore(&fixture.engine(), "one").await;
    let again = sandbox(&fixture, "default").await;
    assert_eq!(out(&again, "cat /usr/kept").await, "kept\n");
    assert_eq!(again.notices(), []);
    let engine = fixture.engine_with(&["terminal.docker_network=false"]);
    let anew = engine.sandbox(&TaskName::default_task()).await.unwrap();
    assert_eq!(out(&anew, "ls /usr/kept 2>/dev/null; cat /workspace/w").await, "1\n");
    let notices = anew.notices();
    let printed = |notice: &Notice| matches!(notice, Notice::Remark(text) if text.contains("copy"));
    assert!(notices.iter().any(printed), "{notices:?}");
    fixture.finish().await;
}

pub(crate) async fn an_image_that_was_removed_is_an_error_and_changes_nothing(
    fixture: EngineFixture,
) {
    fixture.out("echo kept > /usr/kept").await;
    snapshot(&fixture.engine(), "one").await;
    let gone = fixture.api.ask("DELETE", &format!("/images/{}", fixture.images()[0]), None);
    assert_eq!(gone.status, 200, "{}", gone.body);
    let default = TaskName::default_task();
    let error =
        fixture.engine().restore(&default, &name("one"), WhileBusy::Stop).await.unwrap_err();
    let Error::Backend { source: BackendError::NoImage { reason, .. }, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(reason.contains("removed"), "{reason}");
    assert_eq!(fixture.out("cat /usr/kept").await, "kept\n");
    fixture.engine().remove_snapshot(&default, &name("one")).await.unwrap();
    fixture.finish().await;
}
