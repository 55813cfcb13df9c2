//! What a sandbox is for, from process to process.

use serde_json::Value;

use crate::support::{World, marker, out, run, until};

const OWNED: &str = "terminal.docker_persist_across_processes=false";

pub(crate) async fn a_file_and_a_server_are_there_for_the_next_process(world: World) {
    let serve = "echo hello > page; httpd -f -p 127.0.0.1:8080 -h /workspace";
    for ends_well in [true, false] {
        let mut worker = world.worker(&["spawn", "default", serve]);
        let job = worker.line().await["job"].as_str().unwrap().parse().unwrap();
        if ends_well {
            worker.finish().await;
        } else {
            worker.crash().await;
        }
        let sandbox = world.sandbox().await;
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
    world.finish().await;
}

pub(crate) async fn a_process_that_keeps_nothing_is_not_gone_before_its_container(world: World) {
    let said = world.worker(&["--set", OWNED, "run", "default", "hostname"]).done().await;
    assert_eq!(said["code"], 0);
    assert_eq!(world.containers(), Vec::<Value>::new());
    world.finish().await;
}

pub(crate) async fn a_killed_process_that_keeps_nothing_leaves_no_container(world: World) {
    let mut workers = Vec::new();
    for transport in ["socket", "exec"] {
        let transport = format!("terminal.docker_transport={transport}");
        let mut worker = world.worker(&["--set", OWNED, "--set", &transport, "attach", "default"]);
        worker.line().await;
        workers.push(worker);
    }
    assert_eq!(world.containers().len(), 2);
    for listed in world.containers() {
        let container = world.api.inspect(listed["Id"].as_str().unwrap()).unwrap();
        assert_eq!(container["HostConfig"]["AutoRemove"], true);
    }
    for worker in workers {
        worker.crash().await;
    }
    until("their containers are gone", || async { world.containers().is_empty() }).await;
    world.finish().await;
}

pub(crate) async fn settings_of_the_environment_shape_the_container(world: World) {
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
    let said = world.worker_with(&["run", "default", text], &variables).done().await;
    assert_eq!(said["stdout"], format!("here\n{plain}\n{secret}\n[]\n"));
    let container = world.container();
    assert_eq!(container["HostConfig"]["Memory"], 256_i64 << 20);
    let shown = container.to_string();
    assert!(!shown.contains(&secret) && !shown.contains(&plain));
    world.finish().await;
}

pub(crate) async fn each_image_asked_for_has_a_sandbox_of_its_own(world: World) {
    use vestal_sandbox::{Overrides, TaskName};
    world.out("echo shared > ~/whose").await;
    let task: TaskName = "with-an-image".parse().unwrap();
    let asked =
        Overrides { image: Some("vestal-test/busybox:latest".into()), ..Overrides::default() };
    let sandbox = world.engine().sandbox_with(&task, &asked).await.unwrap();
    assert_eq!(out(&sandbox, "ls ~; ls /bin/bash || echo no bash").await, "no bash\n");
    // What was asked for once is kept.
    let again = world.engine().sandbox(&task).await.unwrap();
    assert_eq!(again.instance().await, sandbox.instance().await);
    assert!(again.notices().is_empty(), "{:?}", again.notices());
    assert_eq!(world.containers().len(), 2);
    world.finish().await;
}
