//! What a sandbox is for, from process to process.

use serde_json::Value;

use crate::support::{EngineFixture, marker, out, run, until};

const OWNED: &str = "terminal.docker_persist_across_processes=false";

pub(crate) async fn a_file_and_a_server_are_there_for_the_next_process(fixture: EngineFixture) {
    let serve = "echo hello > page; httpd -f -p 127.0.0.1:8080 -h /workspace";
    for ends_well in [true, false] {
        let mut worker = fixture.worker(&["spawn", "default", serve]);
        let job = worker.line().await["job"].as_str().unwrap().parse().unwrap();
        if ends_well {
            worker.finish().await;
        } else {
            worker.crash().await;
        }
        let sandbox = fixture.sandbox().await;
        until("the server answers", || async {
            let page = run(&sandbox, "wget -q -O - http://127.0.0.1:8080/page").await;
            page.stdout.text() == "hello\n"
        })
        .await;
        assert_eq!(sandbox.generation().await, 1);
        sandbox.kill(&job).await.unwrap();
        assert_ne!(
            run(&sandbox, "wget -q -O - http://127.0.0.1:8080/page").await.exit.code,
            Some(0)
        );
    }
    fixture.finish().await;
}

pub(crate) async fn a_process_that_keeps_nothing_is_not_gone_before_its_container(
    fixture: EngineFixture,
) {
    let printed = fixture.worker(&["--set", OWNED, "run", "default", "hostname"]).done().await;
    assert_eq!(printed["code"], 0);
    assert_eq!(fixture.containers(), Vec::<Value>::new());
    fixture.finish().await;
}

pub(crate) async fn a_killed_process_that_keeps_nothing_leaves_no_container(
    fixture: EngineFixture,
) {
    let mut workers = Vec::new();
    for transport in ["socket", "exec"] {
        let transport = format!("terminal.docker_transport={transport}");
        let mut worker =
            fixture.worker(&["--set", OWNED, "--set", &transport, "attach", "default"]);
        worker.line().await;
        workers.push(worker);
    }
    assert_eq!(fixture.containers().len(), 2);
    for listed in fixture.containers() {
        let container = fixture.api.inspect(listed["Id"].as_str().unwrap()).unwrap();
        assert_eq!(container["HostConfig"]["AutoRemove"], true);
    }
    for worker in workers {
        worker.crash().await;
    }
    until("their containers are gone", || async { fixture.containers().is_empty() }).await;
    fixture.finish().await;
}

pub(crate) async fn settings_of_the_environment_shape_the_container(fixture: EngineFixture) {
    let (secret, plain) = (marker(), marker());
    let env = format!(r#"{{"PLAIN": "{plain}"}}"#);
    let variables = [
        ("TERMINAL_CONTAINER_MEMORY", "256"),
        ("TERMINAL_DOCKER_EXTRA_ARGS", r#"["--hostname", "here"]"#),
        ("TERMINAL_DOCKER_ENV", &*env),
        ("TERMINAL_DOCKER_FORWARD_ENV", r#"["TOKEN"]"#),
        ("TOKEN", &*secret),
        ("OTHER", "not forwarded"),
    ];
    let text = "hostname; echo $PLAIN; echo $TOKEN; echo [$OTHER]";
    let printed = fixture.worker_with(&["run", "default", text], &variables).done().await;
    assert_eq!(printed["stdout"], format!("here\n{plain}\n{secret}\n[]\n"));
    let container = fixture.container();
    assert_eq!(container["HostConfig"]["Memory"], 256_i64 << 20);
    let shown = container.to_string();
    assert!(!shown.contains(&secret) && !shown.contains(&plain));
    fixture.finish().await;
}

pub(crate) async fn each_image_asked_for_has_a_sandbox_of_its_own(fixture: EngineFixture) {
    use vestal_sandbox::{Notice, Overrides, TaskName};
    fixture.out("echo shared > ~/whose").await;
    let task: TaskName = "with-an-image".parse().unwrap();
    let asked =
        Overrides { image: Some("vestal-test/busybox:latest".into()), ..Overrides::default() };
    let sandbox = fixture.engine().sandbox_with(&task, &asked).await.unwrap();
    assert_eq!(out(&sandbox, "ls ~; ls /bin/bash || echo no bash").await, "no bash\n");
    // What was asked for once is kept.
    let again = fixture.engine().sandbox(&task).await.unwrap();
    assert_eq!(again.instance().await, sandbox.instance().await);
    // The image of the fixture is one of the command line, and this sandbox does not take it.
    let notices = again.notices();
    assert!(
        matches!(notices, [Notice::Remark(remark)] if remark.contains("--image")),
        "{notices:?}"
    );
    assert_eq!(fixture.containers().len(), 2);
    fixture.finish().await;
}
