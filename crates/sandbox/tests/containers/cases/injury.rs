//! What is done to containers behind our back, and what stands in their way.

use std::collections::BTreeSet;
use std::time::Duration;

use vestal_sandbox::backend::BackendError;
use vestal_sandbox::files::WriteOptions;
use vestal_sandbox::{Error, FilesOnRemoval, StateBefore, TaskName};

use crate::support::{
    ClearOnDrop, EngineFixture, Fate, Request, encode, kill, marker, out, run, until,
};

pub(crate) async fn a_container_stopped_killed_paused_or_restarted_is_used_again(
    fixture: EngineFixture,
) {
    fixture.out("echo 1 > ~/kept; echo 2 > kept; echo 3 > /usr/kept; x=5").await;
    let container = fixture.container_id();
    let whole = async || {
        let sandbox = fixture.sandbox().await;
        assert_eq!(out(&sandbox, "cat ~/kept kept /usr/kept; echo $x").await, "1\n2\n3\n5\n");
        assert_eq!(fixture.container_id(), container, "the same one");
        assert_eq!(sandbox.generation().await, 1);
        sandbox.state_before()
    };
    let ask = |verb: &str| fixture.api.post(&format!("/containers/{container}/{verb}"));
    ask("stop");
    assert_eq!(whole().await, StateBefore::Stopped);
    ask("kill");
    assert_eq!(whole().await, StateBefore::Stopped);
    kill(fixture.first_process());
    until("it has ended", || async { fixture.container()["State"]["Running"] == false }).await;
    assert_eq!(whole().await, StateBefore::Stopped);
    ask("pause");
    assert_eq!(whole().await, StateBefore::Running);
    ask("restart");
    assert_eq!(whole().await, StateBefore::Running);
    // Under the eyes of one who uses it.
    let sandbox = fixture.sandbox().await;
    ask("kill");
    assert_eq!(out(&sandbox, "cat ~/kept; echo $x").await, "1\n5\n");
    ask("pause");
    ask("unpause");
    assert_eq!(out(&sandbox, "cat ~/kept; echo $x").await, "1\n5\n");
    fixture.finish().await;
}

pub(crate) async fn a_removed_container_is_made_anew_with_its_files(fixture: EngineFixture) {
    fixture.out("echo 1 > ~/kept; echo 2 > kept; echo 3 > /usr/gone").await;
    let sandbox = fixture.sandbox().await;
    let container = fixture.container_id();
    fixture.api.remove(&container);
    assert_eq!(out(&sandbox, "cat ~/kept kept; ls /usr/gone || true").await, "1\n2\n");
    assert_ne!(fixture.container_id(), container);
    assert_eq!(fixture.sandbox().await.generation().await, 2);
    fixture.finish().await;
}

pub(crate) async fn an_image_may_go_from_under_its_container(fixture: EngineFixture) {
    let name = format!("127.0.0.1:5000/vestal-test/fleeting-{}", marker());
    fixture
        .api
        .post(&format!("/images/vestal-test%2Fbase:latest/tag?repo={}&tag=1", encode(&name)));
    let fixture = fixture.set(&format!("terminal.docker_image={name}:1"));
    fixture.out("echo 1 > ~/kept; echo 3 > /usr/kept").await;
    fixture.engine().stop(&TaskName::default_task()).await.unwrap();
    let gone =
        fixture.api.ask("DELETE", &format!("/images/{}", encode(&format!("{name}:1"))), None);
    assert_eq!(gone.status, 200, "{}", gone.body);
    assert_eq!(fixture.out("cat ~/kept /usr/kept").await, "1\n3\n", "its container needs no name");

    // A new one does.
    fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Keep).await.unwrap();
    let error = fixture.engine().sandbox(&TaskName::default_task()).await.unwrap_err();
    let Error::Backend { source: BackendError::NoImage { image, .. }, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*image, format!("{name}:1"));
    assert_eq!(fixture.containers(), Vec::<serde_json::Value>::new());
    assert_eq!(
        fixture
            .engine_with(&["terminal.docker_image=vestal-test/base:latest"])
            .list()
            .await
            .unwrap()
            .len(),
        1,
        "its files are there"
    );
    fixture.finish().await;
}

pub(crate) async fn a_full_disk_inside_is_an_error_and_nothing_more(fixture: EngineFixture) {
    let fixture =
        fixture.set(r#"terminal.docker_extra_args=["--tmpfs", "/small:rw,size=256k,mode=1777"]"#);
    let sandbox = fixture.sandbox().await;
    let files = sandbox.files(None).await.unwrap();
    files.write("/small/kept", b"whole", WriteOptions::default()).await.unwrap();
    let filled = run(&sandbox, "x=1; cat /dev/zero > /small/fill").await;
    assert_ne!(filled.exit.code, Some(0));
    assert!(filled.stderr.text().contains("No space left"), "{}", filled.stderr.text());
    let written = files.write("/small/kept", &vec![b'x'; 300_000], WriteOptions::default()).await;
    assert!(written.is_err(), "{written:?}");
    assert_eq!(
        files.read("/small/kept", 100).await.unwrap(),
        b"whole",
        "written whole or not at all"
    );
    assert_eq!(out(&sandbox, "echo $x; ls -A /small").await, "1\nfill\nkept\n");
    fixture.finish().await;
}

/// Returns the name of the default task's container.
fn name(fixture: &EngineFixture) -> String {
    let hash = fixture.engine().key(&TaskName::default_task()).hash();
    format!("vestal-default-{}", &hash[..12])
}

pub(crate) async fn a_name_that_is_taken_by_a_stranger_is_an_error_that_names_it(
    fixture: EngineFixture,
) {
    let name = name(&fixture);
    let stranger = serde_json::json!({
        "Image": "vestal-test/base:latest", "Cmd": ["sleep", "1000"],
        "HostConfig": { "NetworkMode": "none" }, "Labels": { "vestal-test-stranger": name },
    });
    let guard =
        ClearOnDrop { engine: fixture.api.clone(), label: format!("vestal-test-stranger={name}") };
    let made = fixture.api.ask("POST", &format!("/containers/create?name={name}"), Some(&stranger));
    assert_eq!(made.status, 201, "{}", made.body);
    let id = made.body["Id"].as_str().unwrap();
    let error = fixture.engine().sandbox(&TaskName::default_task()).await.unwrap_err();
    let Error::Backend { source, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(source, BackendError::NameTaken { name: taken } if *taken == name));
    assert!(source.advice().is_some());
    assert_eq!(fixture.containers(), Vec::<serde_json::Value>::new(), "nothing is left");
    assert_eq!(fixture.api.inspect(&name).unwrap()["Id"], id, "the stranger is untouched");
    drop(guard);
    assert_eq!(fixture.out("echo ok").await, "ok\n");
    fixture.finish().await;
}

pub(crate) async fn a_half_made_container_that_nobody_remembers_is_replaced(
    fixture: EngineFixture,
) {
    // One that runs has a guest, and is started again rather than thrown away.
    let points = [
        ("docker.create.created", false),
        ("docker.create.filled", false),
        ("docker.create.started", true),
    ];
    for (point, is_resumed) in points {
        let mut worker =
            fixture.worker_with(&["attach", "default"], &[("VESTAL_FAILPOINT", point)]);
        assert!(!worker.child.wait().await.unwrap().success(), "{point}");
        assert_eq!(fixture.containers().len(), 1, "{point}");
        let before = fixture.container_id();
        std::fs::remove_dir_all(fixture.sandbox_dir("default")).unwrap();
        assert_eq!(fixture.out("echo ok").await, "ok\n", "{point}");
        let after = fixture.container();
        assert_eq!(after["Name"].as_str().unwrap().trim_start_matches('/'), name(&fixture));
        assert_eq!(after["Id"] == before, is_resumed, "{point}");
        fixture.engine().remove(&TaskName::default_task(), FilesOnRemoval::Remove).await.unwrap();
    }
    fixture.finish().await;
}

pub(crate) async fn a_slow_engine_makes_one_container_for_all_who_ask(fixture: EngineFixture) {
    let (fixture, proxy) = fixture.proxied();
    proxy.rule(|request| {
        let slow = request.creates() || request.starts() || request.lists();
        Fate::Late(Duration::from_millis(if slow { 2000 } else { 300 }))
    });
    let mut workers: Vec<_> = (0..6).map(|_| fixture.worker(&["attach", "default"])).collect();
    let mut instances = BTreeSet::new();
    for worker in &mut workers {
        instances.insert(worker.line().await["instance"].as_str().unwrap().to_owned());
    }
    assert_eq!(instances.len(), 1, "{instances:?}");
    assert_eq!(proxy.count(Request::creates), 1);
    assert_eq!(proxy.count(Request::starts), 1);
    assert_eq!(fixture.containers().len(), 1);
    for worker in workers {
        worker.finish().await;
    }
    proxy.pass();
    fixture.finish().await;
}

pub(crate) async fn a_directory_to_mount_that_is_not_there_is_an_error_that_names_it(
    fixture: EngineFixture,
) {
    let missing = fixture.scratch("missing");
    let volumes = format!(r#"terminal.docker_volumes=["{}:/x"]"#, missing.display());
    let error =
        fixture.engine_with(&[&volumes]).sandbox(&TaskName::default_task()).await.unwrap_err();
    assert!(error.to_string().contains(missing.to_str().unwrap()), "{error}");
    assert_eq!(fixture.containers(), Vec::<serde_json::Value>::new(), "nothing is left");
    assert!(!missing.exists());
    fixture.finish().await;
}
